"""The public call that is running on this rank, the user's line, and what follows its failure.

All messages of a call carry its name, so that ranks in different calls do not mix them up.

If a call raised on all ranks and the script catches it, ranks go on together. If it raised on some,
such as for their samples only, the others wait for them in it. So before its next message a rank
whose call has failed enters a barrier that only such ranks enter. Ranks in another call are a
mismatch at once; for those that stay in the failed one there is a deadline, after which all end
with the error.

An operation that runs on one rank alone, such as `tf.py_function`, cannot have failed on others, so
that rank ends their wait at once.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import types
from collections.abc import Iterator
from contextvars import ContextVar
from typing import TypeVar

import tnt_comm
from tnt_comm.failure import one_line, printable
from tnt_keras.process.loggers import logger_package
from tnt_keras.process.rank import get_rank

_Value = TypeVar("_Value")

PATIENCE_S = 60.0
"""How long other ranks may take to fail as well: compiling a step may take that long."""

_AT_ONCE_S = 1e-3


@dataclasses.dataclass
class Call:
    """A public call of a distributed model, such as "fit > evaluate"."""

    name: str
    caller: str  # the user's line: "train.py:31"
    outer: Call | None = None
    reported: Exception | None = None  # the error, complete for the user, that ended a call inside


_current: ContextVar[Call | None] = ContextVar("tnt_call", default=None)

on_one_rank: ContextVar[str | None] = ContextVar("tnt_on_one_rank", default=None)
"""The name of what runs on this rank without the others, None if all ranks take part."""


@contextlib.contextmanager
def holding(variable: ContextVar[_Value | None], value: _Value | None) -> Iterator[None]:
    """Give a variable a value in a with-block, for what this thread does in it. Local."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def current_call() -> Call | None:
    """Return the innermost call that is running, None outside of all. Local."""
    return _current.get()


@contextlib.contextmanager
def running(method: str) -> Iterator[Call]:
    """Make a call the current one inside a with-block. Local."""
    outer = _current.get()
    call = Call(method if outer is None else f"{outer.name} > {method}", user_line(), outer)
    with holding(_current, call):
        yield call


def calling_logger() -> str | None:
    """Return the logger's package whose code calls one of us, such as "mlflow", or None. Local."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and _package(frame) in _OURS:
        frame = frame.f_back
    return None if frame is None else logger_package(_package(frame))


_OURS = {*("tarantella", "tnt_comm", "tnt_data", "tnt_keras"), *("contextlib", "functools")}
_NOT_THE_USER = _OURS | {"keras", "tensorflow"}
"""Top-level packages whose frames may lie between the user's line and us."""


def user_line() -> str:
    """Return the user's nearest line, such as "train.py:31"; "" in a thread of others. Local."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        if _package(frame) not in _NOT_THE_USER:
            # Other ranks are told this line.
            return f"{printable(os.path.basename(frame.f_code.co_filename))}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def user_frames_of(traceback: types.TracebackType | None) -> types.TracebackType | None:
    """Return a traceback without the frames of Keras, TensorFlow and ours. Local."""
    entries, kept = [], None
    while traceback is not None:
        entries.append(traceback)
        traceback = traceback.tb_next
    for entry in reversed(entries):
        if _package(entry.tb_frame) not in _NOT_THE_USER:
            kept = types.TracebackType(kept, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return kept


def _package(frame: types.FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


_failed: list[tuple[Call, str, str]] = []  # at most one: collective calls are made in one thread


def note_failure(call: Call, error: Exception) -> None:
    """Remember class and text of an error of a call that left communication intact. Local."""
    _failed[:] = [(call, type(error).__name__, _message_of(error))]


def give_up(error: Exception) -> None:
    """End the wait of others for this rank, which failed alone, and all communication. Local."""
    call = current_call()
    name, caller = ("step", "") if call is None else (call.name, call.caller)
    cause = _message_of(error)
    with contextlib.suppress(tnt_comm.CommError):  # which is what the others get
        tnt_comm.barrier(_AT_ONCE_S, label=f"{name}: after an error", caller=f"{caller} ({cause})")


def require_failure_of_all() -> None:
    """Make sure that the call which failed on this rank has failed on all. Collective if it did."""
    if not _failed:
        return
    call, kind, message = _failed.pop()
    try:  # in a label few words have room
        label, caller = f"{call.name}: after an error", f"{call.caller} ({kind})"
        tnt_comm.barrier(PATIENCE_S, label=label, caller=caller)
    except tnt_comm.CommTimeoutError as error:
        raise tnt_comm.CommTimeoutError(
            f"rank {get_rank()}: {call.name} from {call.caller} has failed on this rank but not "
            f"on all, so others wait for it: {kind}: {message}. Let such an error end the rank "
            f"instead of continuing. ({error})"
        ) from None
    except tnt_comm.PeerLostError as error:
        from tnt_keras.calls.errors import with_text  # it imports TensorFlow, which a rank may lack

        raise with_text(
            error,
            f"{error} (On this rank, {call.name} from {call.caller} had failed before: {kind}: "
            f"{message}. If it failed on some ranks only, that is why others have ended: let such "
            "an error end the rank instead of continuing.)",
        ) from None


def _message_of(error: Exception) -> str:
    return one_line(error).partition(": ")[2][:300]
