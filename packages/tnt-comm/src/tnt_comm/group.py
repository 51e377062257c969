"""Groups of ranks and the collectives among them."""

from collections.abc import Sequence

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
from tnt_comm.ticket import Ticket


class Group:
    """Some ranks of the job, and the collectives among them.

    All members must make the same calls on a group in the same order, with
    equal dtypes, shapes, operations and labels; every call checks that. Different
    groups, `GradientReducer` and `Gatherer` objects are independent of each
    other. Sums are formed in an order that depends on the number of ranks
    only, so results are bitwise equal on all ranks and from run to run.

    A collective waits for its result; its `start_` form returns a `Ticket` for
    it at once. What their arguments mean, unless they say more:

    - `array`: Of any shape, and of a dtype in `arrays.DTYPES`; with parts for
      the members, of at least one axis.
    - `root`: A member, as rank inside the group.
    - `out`: Where to put the result, C-contiguous; may be `array` itself.
    - `timeout_s`: The longest wait, as in `Ticket.wait`.
    - `label`: What the call is for, such as "fit: end of step". Members whose
      labels differ are in different calls: a MismatchError on all.
    - `caller`: Where it is called, such as "train.py:31"; shown in errors, not
      compared. By default the line outside of this package.

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
        timeout_or_default(timeout_s)
        self._start_barrier(label, caller, will_wait=True).wait(timeout_s)

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
            The result, the same on all members; `out` if given. Otherwise a new array, whose
            memory is used again when nobody holds it or a view of it any more.
        """
        if timeout_s is None:
            result = _core.allreduce_plain(self._core, array, op, out, label, caller)
            if result is not None:
                return result
        timeout_or_default(timeout_s)
        ticket = self._start_allreduce(array, op, out, label, caller, will_wait=True)
        return ticket.wait(timeout_s)

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
        timeout_or_default(timeout_s)
        ticket = self._start_broadcast(array, root, out, label, caller, will_wait=True)
        return ticket.wait(timeout_s)

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
        timeout_or_default(timeout_s)
        return self._start_allgather(array, label, caller, will_wait=True).wait(timeout_s)

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
        timeout_or_default(timeout_s)
        ticket = self._start_reduce_scatter(array, op, label, caller, will_wait=True)
        return ticket.wait(timeout_s)

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
        timeout_or_default(timeout_s)
        return self._start_alltoall(array, label, caller, will_wait=True).wait(timeout_s)

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
        timeout_or_default(timeout_s)
        return self._start_gather(array, root, label, caller, will_wait=True).wait(timeout_s)

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
        timeout_or_default(timeout_s)
        return self._start_scatter(array, root, label, caller, will_wait=True).wait(timeout_s)

    def start_barrier(self, *, label: str = "", caller: str = "") -> Ticket[None]:
        """Start a `barrier`; its ticket is done when all members have called it. Local."""
        return self._start_barrier(label, caller, will_wait=False)

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
        return self._start_allreduce(array, op, out, label, caller, will_wait=False)

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
        return self._start_broadcast(array, root, out, label, caller, will_wait=False)

    def start_allgather(
        self, array: npt.ArrayLike, *, label: str = "", caller: str = ""
    ) -> Ticket[list[Array]]:
        """Start an `allgather` without waiting for it. Local."""
        return self._start_allgather(array, label, caller, will_wait=False)

    def start_reduce_scatter(
        self, array: npt.ArrayLike, op: str = "sum", *, label: str = "", caller: str = ""
    ) -> Ticket[Array]:
        """Start a `reduce_scatter` without waiting for it. Local."""
        return self._start_reduce_scatter(array, op, label, caller, will_wait=False)

    def start_alltoall(
        self, array: npt.ArrayLike, *, label: str = "", caller: str = ""
    ) -> Ticket[Array]:
        """Start an `alltoall` without waiting for it. Local."""
        return self._start_alltoall(array, label, caller, will_wait=False)

    def start_gather(
        self, array: npt.ArrayLike, root: int = 0, *, label: str = "", caller: str = ""
    ) -> Ticket[list[Array] | None]:
        """Start a `gather` without waiting for it. Local."""
        return self._start_gather(array, root, label, caller, will_wait=False)

    def start_scatter(
        self, array: npt.ArrayLike, root: int = 0, *, label: str = "", caller: str = ""
    ) -> Ticket[Array]:
        """Start a `scatter` without waiting for it. Local."""
        return self._start_scatter(array, root, label, caller, will_wait=False)

    # `will_wait`: the caller waits at once and its thread runs the operation, so
    # the progress thread need not be woken.

    def _start_barrier(self, label: str, caller: str, *, will_wait: bool) -> Ticket[None]:
        return Ticket(self._core.start_barrier(_call(will_wait, label, caller)), (), lambda _: None)

    def _start_allreduce(
        self,
        array: npt.ArrayLike,
        op: str,
        out: Array | None,
        label: str,
        caller: str,
        *,
        will_wait: bool,
    ) -> Ticket[Array]:
        source, target = _with_result(array, out)
        dtype, op = dtype_name(source.dtype), as_text(op, "`op`")
        core = self._core.start_allreduce(
            source, target, dtype, op, _call(will_wait, label, caller)
        )
        return Ticket(core, (source, target), lambda _: target)

    def _start_broadcast(
        self,
        array: npt.ArrayLike,
        root: int,
        out: Array | None,
        label: str,
        caller: str,
        *,
        will_wait: bool,
    ) -> Ticket[Array]:
        root = as_integer(root, "`root`", num_bits=32)
        source, target = _with_result(array, out)
        dtype = dtype_name(source.dtype)
        core = self._core.start_broadcast(
            source, target, dtype, root, _call(will_wait, label, caller)
        )
        return Ticket(core, (source, target), lambda _: target)

    def _start_allgather(
        self, array: npt.ArrayLike, label: str, caller: str, *, will_wait: bool
    ) -> Ticket[list[Array]]:
        source = as_input(array)
        sent, name = _to_gather(source), dtype_name(source.dtype)
        call = _call(will_wait, label, caller)
        core = self._core.start_allgather(sent, name, source.shape, call)
        return Ticket(core, (sent,), lambda core: _blocks_like(source, core))

    def _start_gather(
        self, array: npt.ArrayLike, root: int, label: str, caller: str, *, will_wait: bool
    ) -> Ticket[list[Array] | None]:
        root = as_integer(root, "`root`", num_bits=32)
        source = as_input(array)
        sent, name = _to_gather(source), dtype_name(source.dtype)
        is_root = root == self.rank
        call = _call(will_wait, label, caller)
        core = self._core.start_gather(sent, name, source.shape, root, call)
        return Ticket(core, (sent,), lambda core: _blocks_like(source, core) if is_root else None)

    def _start_reduce_scatter(
        self, array: npt.ArrayLike, op: str, label: str, caller: str, *, will_wait: bool
    ) -> Ticket[Array]:
        source = as_input(array)
        target = as_output(None, self._shape_of_part(source), source.dtype)
        dtype, op = dtype_name(source.dtype), as_text(op, "`op`")
        core = self._core.start_reduce_scatter(
            source, target, dtype, op, _call(will_wait, label, caller)
        )
        return Ticket(core, (source, target), lambda _: target)

    def _start_alltoall(
        self, array: npt.ArrayLike, label: str, caller: str, *, will_wait: bool
    ) -> Ticket[Array]:
        source = as_input(array)
        rows, *others = self._shape_of_part(source)
        target = as_output(None, (self.size * rows, *others), source.dtype)
        dtype = dtype_name(source.dtype)
        core = self._core.start_alltoall(source, target, dtype, _call(will_wait, label, caller))
        return Ticket(core, (source, target), lambda _: target)

    def _start_scatter(
        self, array: npt.ArrayLike, root: int, label: str, caller: str, *, will_wait: bool
    ) -> Ticket[Array]:
        root = as_integer(root, "`root`", num_bits=32)
        source = as_input(array)
        target = as_output(None, self._shape_of_part(source), source.dtype)
        dtype = dtype_name(source.dtype)
        core = self._core.start_scatter(
            source, target, dtype, root, _call(will_wait, label, caller)
        )
        return Ticket(core, (source, target), lambda _: target)

    def _shape_of_part(self, array: Array) -> tuple[int, ...]:
        """Return the shape of this rank's part, as `numpy.array_split` cuts an array."""
        if array.ndim == 0:
            raise ValueError("`array` must have an axis to scatter. Received: a scalar.")
        base, extra = divmod(array.shape[0], self.size)
        return (base + (self.rank < extra), *array.shape[1:])


def _with_result(array: npt.ArrayLike, out: Array | None) -> tuple[Array, Array]:
    """Return an input, and the array for a result of its shape and dtype."""
    source = as_input(array)
    target = as_output(out, source.shape, source.dtype)
    return without_partial_overlap(source, target), target


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


def _call(will_wait: bool, label: str, caller: str) -> tuple[bool, str, str]:
    """Return what the core is told of a call."""
    return will_wait, as_text(label, "`label`"), as_text(caller, "`caller`")


def _as_ranks(ranks: Sequence[int]) -> list[int]:
    """Return ranks as integers of Python."""
    try:
        return [as_integer(rank, "Each of `ranks`", num_bits=32) for rank in ranks]
    except TypeError:
        raise TypeError(f"`ranks` must be a sequence of integers. Received: {ranks!r}.") from None
