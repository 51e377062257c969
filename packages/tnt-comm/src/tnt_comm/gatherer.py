"""Rows of all ranks, gathered in the background, step after step."""

import weakref

import numpy as np
import numpy.typing as npt

from tnt_comm import _core
from tnt_comm.arrays import Array, as_input, as_text, timeout_or_default
from tnt_comm.group import Group


class Gatherer:
    """A reusable, non-blocking allgather of rows, independent of everything else.

    Each step is one `start` and one `finish`. Ranks may contribute different numbers of rows, even
    none.

    Collective: every member of the group must create it.

    Args:
        name: For messages; must be equal on all ranks.
        group: All ranks by default.

    Raises:
        MismatchError: On all members, if they create different objects.
        CommError: If a rank cannot create its part; the group can still be used.
    """

    def __init__(self, name: str, group: Group | None = None) -> None:
        self._name = as_text(name, "`name`")
        self._group = group if group is not None else Group()
        self._row_shape: tuple[int, ...] = ()
        self._dtype: np.dtype[np.generic] = np.dtype(np.uint8)
        self._handle = _core.create_gatherer(self._group.core, name)
        self._free = weakref.finalize(self, _core.close_gatherer, self._handle)
        self._free.atexit = False

    @property
    def handle(self) -> int:
        """Number of this object in the C interface (`tnt_gatherer_start`...)."""
        return self._handle

    def start(self, array: npt.ArrayLike) -> None:
        """Copy this rank's rows and start to gather them.

        Local: never waits for other ranks. `array` may be changed afterwards.

        Args:
            array: Rows of shape `(n, ...)`; all but `n` must be equal on all
                ranks, and so must be the dtype.

        Raises:
            ValueError: If `array` is a scalar, or the step before was not
                finished.
        """
        source = as_input(array)
        if source.ndim == 0:
            raise ValueError(f"Gatherer '{self._name}' gathers rows. Received: a scalar.")
        _core.start_blocks(self._handle, source)
        self._row_shape = source.shape[1:]
        self._dtype = source.dtype

    def finish(self, timeout_s: float | None = None) -> list[Array]:
        """Wait for the rows of all ranks. Collective.

        Args:
            timeout_s: Longest wait in seconds, by default `TNT_TIMEOUT_S`.

        Returns:
            One array of shape `(n_r, ...)` per rank r, in rank order.

        Raises:
            ValueError: If the step was not started, or another rank's rows
                have another size than this rank's.
            CommTimeoutError: If the wait takes too long; the group is then broken.
            PeerLostError: If a member of the group has ended.
        """
        blocks = _core.finish_blocks(self._handle, timeout_or_default(timeout_s))
        row_bytes = self._dtype.itemsize * int(np.prod(self._row_shape, dtype=np.int64))
        return [self._rows(block, rank, row_bytes) for rank, block in enumerate(blocks)]

    def close(self) -> None:
        """Free its memory, as the end of the object does. Local.

        Later calls raise `ValueError`; closing again does not.
        """
        self._handle = 0
        self._free()

    def _rows(self, block: Array, rank: int, row_bytes: int) -> Array:
        num_rows, rest = divmod(block.nbytes, row_bytes) if row_bytes else (0, block.nbytes)
        if rest:
            raise ValueError(
                f"Gatherer '{self._name}': member {rank} of the group sent {block.nbytes} bytes, "
                f"which is not a whole number of rows of {self._dtype} {self._row_shape} "
                f"({row_bytes} bytes)."
            )
        return block.view(self._dtype).reshape((num_rows, *self._row_shape))
