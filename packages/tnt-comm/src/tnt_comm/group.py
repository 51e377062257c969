"""Groups of ranks and the collectives among them."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tnt_comm import _core
from tnt_comm.arrays import (
    Array,
    as_input,
    as_integer,
    as_output,
    as_text,
    dtype_name,
    timeout_or_default,
    without_partial_overlap,
)
from tnt_comm.job import init
from tnt_comm.ticket import Ticket

_COLLECTIVES = _core.collectives()
_NOTHING: Array = np.empty(0, np.uint8)


class Group:
    """A group of ranks of the job, and the collectives among them.

    All members must make the same calls on a group in the same order, with
    equal dtypes, shapes, operations and labels; every call checks that. Different
    groups, `GradientReducer` and `Gatherer` objects are independent of each
    other. Sums are formed in an order that depends only on the number of ranks, so results are
    bitwise equal on all ranks and from run to run.

    A collective waits for its result; its `start_` form returns a `Ticket` for it at once. Their
    arguments mean, unless they say more:

    - `array`: Of any shape, and of a dtype in `arrays.DTYPES`; with parts for
      the members, of at least one axis.
    - `root`: A member, as rank inside the group.
    - `out`: Where to put the result, C-contiguous; may be `array` itself.
    - `timeout_s`: The longest wait, as in `Ticket.wait`.
    - `label`: What the call is for, such as "fit: end of step". Members whose
      labels differ are in different calls: a MismatchError on all.
    - `caller`: Where it is called, such as "train.py:31"; shown in errors, not
      compared. By default the line outside this package.

    They raise a TypeError if an argument is of another type, a ValueError if dtype,
    `op` or `root` are not as described or `out` does not fit, and what `Ticket.wait`
    raises.

    Collective: every member must create the group, in the same order as other
    groups of the same ranks. May be used from any thread.

    Args:
        ranks: World ranks, ascending, the caller's among them. All ranks of
            the job by default.

    Raises:
        TypeError: If `ranks` is not a sequence of integers.
        ValueError: If `ranks` is not as described.
        CommError: If a member cannot create its part.
    """

    def __init__(self, ranks: Sequence[int] | None = None) -> None:
        init()
        if ranks is None:
            self._core = _core.Group.world()
        else:
            self._core = _core.Group.create(_as_ranks(ranks))

    @property
    def rank(self) -> int:
        """Rank of the caller inside the group, in `[0, size)`."""
        return self._core.rank

    @property
    def size(self) -> int:
        """Number of members."""
        return self._core.size

    @property
    def ranks(self) -> tuple[int, ...]:
        """World ranks of the members."""
        return tuple(self._core.ranks)

    @property
    def core(self) -> _core.Group:
        """The C++ object, for the classes of this package that live on a group."""
        return self._core

    def barrier(self, timeout_s: float | None = None, *, label: str = "", caller: str = "") -> None:
        """Wait until all members have called it. Collective."""
        self._run("barrier", None, timeout_s, label, caller)

    def allreduce(
        self,
        array: npt.ArrayLike,
        op: str = "sum",
        out: Array | None = None,
        timeout_s: float | None = None,
        label: str = "",
        caller: str = "",
    ) -> Array:
        """Combine the arrays of all members element by element. Collective.

        `array` has the same shape on all members. `op` is "sum", "prod", "min" or "max"; for bool
        and integers also "and" or "or" (bitwise). "sum" and "prod" are not defined for bool.

        Returns:
            The result, the same on all members; `out` if given. Otherwise a new array, whose memory
            is reused once nobody holds it or a view of it.
        """
        if timeout_s is None:
            plain = _core.allreduce_plain(self._core, array, op, out, label, caller)
            if plain is not None:
                return plain
        result: Array = self._run("allreduce", array, timeout_s, label, caller, op=op, out=out)
        return result

    def broadcast(
        self,
        array: npt.ArrayLike,
        root: int = 0,
        *,
        out: Array | None = None,
        timeout_s: float | None = None,
        label: str = "",
        caller: str = "",
    ) -> Array:
        """Give all members the array of `root`; `out` if given. Collective.

        The values of `array` matter on the root only, its shape and dtype on all members.
        """
        result: Array = self._run("broadcast", array, timeout_s, label, caller, root=root, out=out)
        return result

    def allgather(
        self,
        array: npt.ArrayLike,
        *,
        timeout_s: float | None = None,
        label: str = "",
        caller: str = "",
    ) -> list[Array]:
        """Give all members the arrays of all, in rank order. Collective.

        The first axis of `array` may differ between members (also 0); dtype and the other axes
        may not.
        """
        result: list[Array] = self._run("allgather", array, timeout_s, label, caller)
        return result

    def reduce_scatter(
        self,
        array: npt.ArrayLike,
        op: str = "sum",
        *,
        timeout_s: float | None = None,
        label: str = "",
        caller: str = "",
    ) -> Array:
        """Give each member its part of what `allreduce` of the arrays gives. Collective.

        Parts are those into which `numpy.array_split` cuts along the first axis: part `rank`.
        """
        result: Array = self._run("reduce_scatter", array, timeout_s, label, caller, op=op)
        return result

    def alltoall(
        self,
        array: npt.ArrayLike,
        *,
        timeout_s: float | None = None,
        label: str = "",
        caller: str = "",
    ) -> Array:
        """Give each member its part of the arrays of all. Collective.

        Arrays have the same shape; parts are those of `reduce_scatter`, here part `r` for member
        `r`.

        Returns:
            The parts for this member, of all members in rank order, joined along the first axis.
        """
        result: Array = self._run("alltoall", array, timeout_s, label, caller)
        return result

    def gather(
        self,
        array: npt.ArrayLike,
        root: int = 0,
        *,
        timeout_s: float | None = None,
        label: str = "",
        caller: str = "",
    ) -> list[Array] | None:
        """Give `root` the arrays of all, as `allgather` does, and the others None. Collective."""
        result: list[Array] | None = self._run("gather", array, timeout_s, label, caller, root=root)
        return result

    def scatter(
        self,
        array: npt.ArrayLike,
        root: int = 0,
        *,
        timeout_s: float | None = None,
        label: str = "",
        caller: str = "",
    ) -> Array:
        """Give each member its part, as of `reduce_scatter`, of the array of `root`. Collective.

        The values of `array` matter on the root only, its shape and dtype on all members.
        """
        result: Array = self._run("scatter", array, timeout_s, label, caller, root=root)
        return result

    def start_barrier(self, *, label: str = "", caller: str = "") -> Ticket[None]:
        """Start a `barrier`; its ticket is done when all members have called it. Local."""
        return self._start("barrier", None, label, caller)

    def start_allreduce(
        self,
        array: npt.ArrayLike,
        op: str = "sum",
        *,
        out: Array | None = None,
        label: str = "",
        caller: str = "",
    ) -> Ticket[Array]:
        """Start an `allreduce` without waiting for it. Local."""
        return self._start("allreduce", array, label, caller, op=op, out=out)

    def start_broadcast(
        self,
        array: npt.ArrayLike,
        root: int = 0,
        *,
        out: Array | None = None,
        label: str = "",
        caller: str = "",
    ) -> Ticket[Array]:
        """Start a `broadcast` without waiting for it. Local."""
        return self._start("broadcast", array, label, caller, root=root, out=out)

    def start_allgather(
        self, array: npt.ArrayLike, *, label: str = "", caller: str = ""
    ) -> Ticket[list[Array]]:
        """Start an `allgather` without waiting for it. Local."""
        return self._start("allgather", array, label, caller)

    def start_reduce_scatter(
        self, array: npt.ArrayLike, op: str = "sum", *, label: str = "", caller: str = ""
    ) -> Ticket[Array]:
        """Start a `reduce_scatter` without waiting for it. Local."""
        return self._start("reduce_scatter", array, label, caller, op=op)

    def start_alltoall(
        self, array: npt.ArrayLike, *, label: str = "", caller: str = ""
    ) -> Ticket[Array]:
        """Start an `alltoall` without waiting for it. Local."""
        return self._start("alltoall", array, label, caller)

    def start_gather(
        self, array: npt.ArrayLike, root: int = 0, *, label: str = "", caller: str = ""
    ) -> Ticket[list[Array] | None]:
        """Start a `gather` without waiting for it. Local."""
        return self._start("gather", array, label, caller, root=root)

    def start_scatter(
        self, array: npt.ArrayLike, root: int = 0, *, label: str = "", caller: str = ""
    ) -> Ticket[Array]:
        """Start a `scatter` without waiting for it. Local."""
        return self._start("scatter", array, label, caller, root=root)

    def _run(
        self,
        kind: str,
        array: npt.ArrayLike | None,
        timeout_s: float | None,
        label: str,
        caller: str,
        op: str = "sum",
        root: int = 0,
        out: Array | None = None,
    ) -> Any:
        """Return the result of a collective that is waited for at once."""
        timeout_or_default(timeout_s)
        # The thread that waits runs the operation, so the progress thread need not be woken.
        return self._start(kind, array, label, caller, op, root, out, True).wait(timeout_s)

    def _start(
        self,
        kind: str,
        array: npt.ArrayLike | None,
        label: str,
        caller: str,
        op: str = "sum",
        root: int = 0,
        out: Array | None = None,
        will_wait: bool = False,
    ) -> Ticket[Any]:
        """Start a collective, which the core describes (see `_core.collectives`)."""
        number, layout, has_root = _COLLECTIVES[kind]
        words = (will_wait, as_text(label, "`label`"), as_text(caller, "`caller`"))
        if has_root:
            root = as_integer(root, "`root`", num_bits=32)
        if array is None:
            core = self._core.start(number, _NOTHING, None, "uint8", None, op, root, words)
            return Ticket(core, (), lambda _: None)
        source = as_input(array)
        dtype, op = dtype_name(source.dtype), as_text(op, "`op`")
        if layout == "blocks":
            sent = _to_gather(source)
            core = self._core.start(number, sent, None, dtype, source.shape, op, root, words)
            takes = not has_root or root == self.rank
            return Ticket(core, (sent,), partial(_blocks_like, source) if takes else lambda _: None)
        target = as_output(out, self._result_shape(layout, source), source.dtype)
        if out is not None:
            source = without_partial_overlap(source, target)
        core = self._core.start(number, source, target, dtype, None, op, root, words)
        return Ticket(core, (source, target), lambda _: target)

    def _result_shape(self, layout: str, array: Array) -> tuple[int, ...]:
        """Return the shape of the result; parts are those of `numpy.array_split`."""
        if layout == "same":
            return array.shape
        if array.ndim == 0:
            raise ValueError("`array` must have an axis to scatter. Received: a scalar.")
        base, extra = divmod(array.shape[0], self.size)
        num_rows = base + (self.rank < extra)
        return (num_rows * (self.size if layout == "parts" else 1), *array.shape[1:])


def _to_gather(array: Array) -> Array:
    """Return what is sent of an array: its rows, or their number if they have no elements."""
    if 0 in array.shape[1:]:
        return np.array([len(array)], np.int64).view(array.dtype)
    return array


def _blocks_like(array: Array, core: _core.Request) -> list[Array]:
    """Return what was gathered as arrays of the same dtype and rows."""
    rows = array.shape[1:]
    blocks = core.take_blocks()
    if 0 in rows:
        return [np.empty((int(block.view(np.int64)[0]), *rows), array.dtype) for block in blocks]
    shape = (-1, *rows) if array.ndim > 0 else ()
    return [block.view(array.dtype).reshape(shape) for block in blocks]


def _as_ranks(ranks: Sequence[int]) -> list[int]:
    """Return ranks as integers of Python."""
    try:
        return [as_integer(rank, "Each of `ranks`", num_bits=32) for rank in ranks]
    except TypeError:
        raise TypeError(f"`ranks` must be a sequence of integers. Received: {ranks!r}.") from None
