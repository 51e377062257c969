"""Blocking collectives among all ranks of the job; see `Group` for details."""

from typing import Any

import numpy.typing as npt

from tnt_comm import _core
from tnt_comm.arrays import Array
from tnt_comm.group import Group
from tnt_comm.job import init


def _first_allreduce(*arguments: Any) -> Array | None:
    """Join the job, and be out of the way from then on."""
    global _allreduce_plain
    init()
    _allreduce_plain = _core.allreduce_plain
    return _allreduce_plain(*arguments)


_allreduce_plain = _first_allreduce


def barrier(timeout_s: float | None = None, *, label: str = "", caller: str = "") -> None:
    """Wait until all ranks have called it, by `Group.barrier`. Collective."""
    Group().barrier(timeout_s, label=label, caller=caller)


def allreduce(
    array: npt.ArrayLike,
    op: str = "sum",
    out: Array | None = None,
    timeout_s: float | None = None,
    label: str = "",
    caller: str = "",
) -> Array:
    """Combine the arrays of all ranks element by element, by `Group.allreduce`. Collective."""
    # The short way for arrays that need no checks: nanoseconds matter here. Keyword-only
    # parameters would take them, since their defaults are looked up in each call.
    if timeout_s is None:
        result = _allreduce_plain(None, array, op, out, label, caller)
        if result is not None:
            return result
    return Group().allreduce(array, op, out=out, timeout_s=timeout_s, label=label, caller=caller)


def broadcast(
    array: npt.ArrayLike,
    root: int = 0,
    *,
    out: Array | None = None,
    timeout_s: float | None = None,
    label: str = "",
    caller: str = "",
) -> Array:
    """Give all ranks the array of `root`, by `Group.broadcast`. Collective."""
    return Group().broadcast(array, root, out=out, timeout_s=timeout_s, label=label, caller=caller)


def allgather(
    array: npt.ArrayLike,
    *,
    timeout_s: float | None = None,
    label: str = "",
    caller: str = "",
) -> list[Array]:
    """Give all ranks the arrays of all, in rank order, by `Group.allgather`. Collective."""
    return Group().allgather(array, timeout_s=timeout_s, label=label, caller=caller)


def reduce_scatter(
    array: npt.ArrayLike,
    op: str = "sum",
    *,
    timeout_s: float | None = None,
    label: str = "",
    caller: str = "",
) -> Array:
    """Give each rank its part of the combined arrays, by `Group.reduce_scatter`. Collective."""
    return Group().reduce_scatter(array, op, timeout_s=timeout_s, label=label, caller=caller)


def alltoall(
    array: npt.ArrayLike,
    *,
    timeout_s: float | None = None,
    label: str = "",
    caller: str = "",
) -> Array:
    """Give each rank its part of the arrays of all, by `Group.alltoall`. Collective."""
    return Group().alltoall(array, timeout_s=timeout_s, label=label, caller=caller)


def gather(
    array: npt.ArrayLike,
    root: int = 0,
    *,
    timeout_s: float | None = None,
    label: str = "",
    caller: str = "",
) -> list[Array] | None:
    """Give `root` the arrays of all, in rank order, by `Group.gather`. Collective."""
    return Group().gather(array, root, timeout_s=timeout_s, label=label, caller=caller)


def scatter(
    array: npt.ArrayLike,
    root: int = 0,
    *,
    timeout_s: float | None = None,
    label: str = "",
    caller: str = "",
) -> Array:
    """Give each rank its part of the array of `root`, by `Group.scatter`. Collective."""
    return Group().scatter(array, root, timeout_s=timeout_s, label=label, caller=caller)
