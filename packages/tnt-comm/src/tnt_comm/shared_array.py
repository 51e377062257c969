"""Arrays in memory that all ranks of a group can reach."""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from tnt_comm import _core
from tnt_comm.arrays import Array, as_integer, dtype_name
from tnt_comm.group import Group


def empty(shape: int | Sequence[int], dtype: npt.DTypeLike, group: Group | None = None) -> Array:
    """Create an array in shared memory, for allreduces without copies.

    `allreduce(x, out=x)` of such arrays works directly in them: each rank
    combines one part of all ranks' arrays and writes the result to all of
    them. That is several times faster than for other arrays, from about ten KiB up. Views of such
    an array count as well; ranks may mix them with other arrays, which is correct, but not faster.

    The array is an ordinary one in every other respect, and each rank's values
    are its own. Ranks may drop theirs at any time and in any order; the memory is then freed.

    Collective: every member of the group must call it with the same size.

    Args:
        shape: Shape of the array.
        dtype: Any dtype that can be communicated, see `arrays.DTYPES`.
        group: The group whose allreduces it is for; all ranks by default.

    Returns:
        A C-contiguous array, aligned to 64 bytes, of arbitrary values. If ranks cannot reach each
        other's memory (several hosts), it is in plain memory.

    Raises:
        TypeError: If a length is not an integer.
        ValueError: If the dtype is not supported, or a length negative or more than memory holds.
        MismatchError: On all members, if they do not create the same array.
        CommError: If a rank cannot create its part, for example for lack of shared memory; the
            group can still be used.

    Example:
        >>> x = empty((2, 3), "float32")
        >>> x[:] = 1
        >>> float(allreduce(x, out=x)[0, 0])  # alone, a world of one rank
        1.0
    """
    resolved = np.dtype(dtype)
    dtype_name(resolved)
    lengths = shape if isinstance(shape, Iterable) else [shape]
    lengths = [as_integer(length, "Each length of `shape`") for length in lengths]
    if any(length < 0 for length in lengths):
        raise ValueError(f"`shape` must not be negative. Received: shape={shape}.")
    owner = group if group is not None else Group()
    return _core.empty(owner.core, resolved, lengths)
