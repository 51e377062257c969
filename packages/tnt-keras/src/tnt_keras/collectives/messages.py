"""Collectives between steps, outside of graphs: barrier, sums, broadcast, comparisons.

Every message says what it is: its label holds the public call that is running and what the message
is for. Where the labels of ranks differ, all of them raise `tnt_comm.MismatchError`, which names
the calls and the users' lines.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

import tnt_comm
from tnt_keras.collectives.current_call import current_call
from tnt_keras.collectives.failed_call import settle_failure
from tnt_keras.collectives.user_frames import user_line
from tnt_keras.process.rank import MASTER_RANK


def allgather(name: str, message: bytes) -> list[bytes]:
    """Return the messages of all ranks, in rank order. Collective.

    Args:
        name: What the message is for, the same on all ranks: "weights", "end of epoch".
        message: The message of this rank; lengths may differ.

    Raises:
        tnt_comm.MismatchError: On all ranks, if they are in different calls or send messages
            for different purposes.
    """
    label, caller = _label(name)
    parts = tnt_comm.allgather(np.frombuffer(message, np.uint8), label=label, caller=caller)
    return [part.tobytes() for part in parts]


def allgather_json(name: str, value: Any) -> list[Any]:
    """Return what all ranks give, in rank order, in the form that JSON gives it. Collective."""
    return [json.loads(message) for message in allgather(name, json.dumps(value).encode())]


def attempt(
    name: str, action: Callable[[], Any], told: Callable[[Exception], Any]
) -> tuple[Any, Exception | None, list[Any]]:
    """Do something on this rank that may fail, and tell all ranks whether it did. Collective.

    Args:
        name: As for `allgather`.
        action: Must not wait for other ranks.
        told: Makes of the error what others are told, as JSON knows it.

    Returns:
        What the action returned, or else its error; and what each rank has told, None if nothing.
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


def allreduce(name: str, array: np.ndarray[Any, Any], op: str = "sum") -> np.ndarray[Any, Any]:
    """Return the arrays of all ranks, combined element by element. Collective.

    Args:
        name: As for `allgather`.
        array: Of the same shape and dtype on all ranks.
        op: "sum", "min" or "max".
    """
    label, caller = _label(name)
    return np.asarray(tnt_comm.allreduce(array, op, label=label, caller=caller))


def broadcast(name: str, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the array of the master rank. Collective.

    Args:
        name: As for `allgather`.
        array: Of any dtype that a variable can have; shape and dtype are those of all ranks.

    Raises:
        tnt_comm.MismatchError: As for `allgather`, or if the numbers of bytes differ.
    """
    # As bytes, since not every dtype of TensorFlow can be sent.
    raw = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
    label, caller = _label(name)
    received = tnt_comm.broadcast(raw, root=MASTER_RANK, label=label, caller=caller)
    return np.frombuffer(received.tobytes(), array.dtype).reshape(array.shape)


def _label(name: str) -> tuple[str, str]:
    """Return the label of a message, and the user's line that led to it."""
    settle_failure()
    call = current_call()
    return (name, user_line()) if call is None else (call.label(name), call.caller)
