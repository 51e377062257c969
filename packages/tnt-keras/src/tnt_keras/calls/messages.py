"""Collectives between steps, outside of graphs: barrier, sums, broadcast, comparisons.

The label of a message holds the running call and `name`, what it is for. Where labels of ranks
differ, all raise `tnt_comm.MismatchError`, which names the calls and the users' lines.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import tnt_comm
from tnt_keras.calls.current_call import current_call
from tnt_keras.calls.failed_call import settle_failure
from tnt_keras.calls.user_frames import user_line
from tnt_keras.process.rank import MASTER_RANK

_BUILDING_S = 120.0
_POLL_S = 0.002


def allgather(name: str, message: bytes) -> list[bytes]:
    """Return the messages of all ranks, of any lengths, in rank order. Collective."""
    label, caller = _label(name)
    parts = tnt_comm.allgather(np.frombuffer(message, np.uint8), label=label, caller=caller)
    return [part.tobytes() for part in parts]


def allgather_json(name: str, value: Any) -> list[Any]:
    """Return the values of all ranks, as JSON keeps them, in rank order. Collective."""
    return [json.loads(message) for message in allgather(name, json.dumps(value).encode())]


def attempt(
    name: str, action: Callable[[], Any], told: Callable[[Exception], Any]
) -> tuple[Any, Exception | None, list[Any]]:
    """Do what may fail on this rank; return result or error, and what each rank told. Collective.

    `action` must not wait for other ranks. `told` makes JSON of an error; without one a rank tells
    None.
    """
    result: Any = None
    error: Exception | None = None
    try:
        result = action()
    except Exception as failure:  # of any class, and the other ranks wait for this one
        error = failure
    return result, error, allgather_json(name, None if error is None else told(error))


def barrier(name: str) -> None:
    """Wait until all ranks have come to the same point. Collective."""
    label, caller = _label(name)
    tnt_comm.barrier(label=label, caller=caller)


def barrier_after_building(name: str) -> None:
    """Wait until all ranks have built a graph; only after two minutes it is a stall. Collective.

    On a busy host ranks may need seconds more or less for it, and nothing is wrong.
    """
    label, caller = _label(name)
    ticket = tnt_comm.Group().start_barrier(label=label, caller=caller)
    end = time.monotonic() + _BUILDING_S
    while not ticket.is_done() and time.monotonic() < end:
        time.sleep(_POLL_S)
    ticket.wait()


def allreduce(name: str, array: np.ndarray[Any, Any], op: str = "sum") -> np.ndarray[Any, Any]:
    """Return the elementwise "sum", "min" or "max" of the arrays of all ranks. Collective."""
    label, caller = _label(name)
    return np.asarray(tnt_comm.allreduce(array, op, label=label, caller=caller))


def broadcast(name: str, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the array of the master rank, as bytes of this rank's dtype and shape. Collective."""
    # As bytes, since not every dtype of TensorFlow can be sent.
    raw = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
    label, caller = _label(name)
    received = tnt_comm.broadcast(raw, root=MASTER_RANK, label=label, caller=caller)
    return np.frombuffer(received.tobytes(), array.dtype).reshape(array.shape)


def scatter(name: str, parts: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return row r of the master rank's array on rank r; others give its shape. Collective."""
    label, caller = _label(name)
    received = tnt_comm.scatter(parts, root=MASTER_RANK, label=label, caller=caller)
    return np.asarray(received[0])


def _label(name: str) -> tuple[str, str]:
    """Return the label of a message, and the user's line that led to it."""
    settle_failure()
    call = current_call()
    return (name, user_line()) if call is None else (call.label(name), call.caller)
