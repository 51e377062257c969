"""Collectives between steps, outside of graphs: barrier, sums, broadcast, comparisons.

The label of a message holds the running call and `name`, what it is for. Where labels of ranks
differ, all raise `tnt_comm.MismatchError`, which names the calls and the users' lines.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, TypeAlias

import numpy as np

import tnt_comm
from tnt_keras.calls.current_call import current_call, require_failure_of_all, user_line
from tnt_keras.process.rank import MASTER_RANK

_BUILDING_S = 120.0
_POLL_S = 0.002
_MESSAGE_BYTES = 16 << 20

_Array: TypeAlias = "np.ndarray[Any, Any]"

before_next: ContextVar[Callable[[], None] | None] = ContextVar("tnt_before_next", default=None)
"""What all ranks do before the next message of a call: compare what was collected."""


def allgather(name: str, message: bytes, *, after_building: bool = False) -> list[bytes]:
    """Return the messages of all ranks, of any lengths, in rank order. Collective.

    `after_building`: all have built a graph before. On a busy host ranks may need seconds more or
    less for it, and nothing is wrong: only after two minutes it is a stall.
    """
    label, caller = _label(name)
    own = np.frombuffer(message, np.uint8)
    if not after_building:
        parts = tnt_comm.allgather(own, label=label, caller=caller)
    else:
        ticket = tnt_comm.Group().start_allgather(own, label=label, caller=caller)
        end = time.monotonic() + _BUILDING_S
        while not ticket.is_done() and time.monotonic() < end:
            time.sleep(_POLL_S)
        parts = ticket.wait()
    return [part.tobytes() for part in parts]


def allgather_json(name: str, value: Any, *, after_building: bool = False) -> list[Any]:
    """Return the values of all ranks, as JSON keeps them, in rank order. Collective."""
    own = json.dumps(value).encode()
    return [json.loads(each) for each in allgather(name, own, after_building=after_building)]


def barrier(name: str) -> None:
    """Wait until all ranks have come to the same point. Collective."""
    label, caller = _label(name)
    tnt_comm.barrier(label=label, caller=caller)


def allreduce(name: str, array: np.ndarray[Any, Any], op: str = "sum") -> np.ndarray[Any, Any]:
    """Return the elementwise "sum", "min" or "max" of the arrays of all ranks. Collective."""
    label, caller = _label(name)
    return np.asarray(tnt_comm.allreduce(array, op, label=label, caller=caller))


def broadcast(name: str, arrays: Sequence[_Array]) -> list[_Array]:
    """Return the arrays of the master rank, of the same sizes on all ranks. Collective.

    They travel together, as bytes of this rank's dtypes and shapes, since not every dtype of
    TensorFlow can be sent.
    """
    groups: list[list[_Array]] = [[]]
    for array in arrays:  # one that is larger than a message travels alone
        if groups[-1] and sum(each.nbytes for each in (*groups[-1], array)) > _MESSAGE_BYTES:
            groups.append([])
        groups[-1].append(array)
    received: list[_Array] = []
    for group in filter(None, groups):
        own = b"".join(np.ascontiguousarray(array).tobytes() for array in group)
        label, caller = _label(name)
        raw = np.frombuffer(own, np.uint8)
        taken = tnt_comm.broadcast(raw, root=MASTER_RANK, label=label, caller=caller).tobytes()
        begin = 0
        for array in group:
            part = np.frombuffer(taken[begin : begin + array.nbytes], array.dtype)
            received.append(part.reshape(array.shape))
            begin += array.nbytes
    return received


def scatter(name: str, parts: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return row r of the master rank's array on rank r; others give its shape. Collective."""
    label, caller = _label(name)
    received = tnt_comm.scatter(parts, root=MASTER_RANK, label=label, caller=caller)
    return np.asarray(received[0])


def _label(name: str) -> tuple[str, str]:
    """Return the label of a message, and the user's line that led to it."""
    require_failure_of_all()
    prepare = before_next.get()
    if prepare is not None:
        prepare()
    call = current_call()
    return (name, user_line()) if call is None else (f"{call.name}: {name}", call.caller)
