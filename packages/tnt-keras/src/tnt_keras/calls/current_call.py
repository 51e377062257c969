"""The public call that is running on this rank, the user's line, and what runs on it alone.

All messages of a call carry its name, so that ranks in different calls do not mix them up.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import os
import sys
import types
from collections.abc import Iterator


@dataclasses.dataclass
class Call:
    """A public call of a distributed model, such as "fit > evaluate"."""

    name: str
    caller: str  # the user's line: "train.py:31"
    outer: Call | None = None
    reported: Exception | None = None  # the error, complete for the user, that ended a call inside
    _labels: dict[str, str] = dataclasses.field(default_factory=dict)

    def label(self, purpose: str) -> str:
        """Return the label of a message, "fit: end of training step"; composed once. Local."""
        label = self._labels.get(purpose)
        if label is None:
            label = self._labels[purpose] = f"{self.name}: {purpose}"
        return label


_current: contextvars.ContextVar[Call | None] = contextvars.ContextVar("tnt_call", default=None)


def current_call() -> Call | None:
    """Return the innermost call that is running, None outside of all. Local."""
    return _current.get()


@contextlib.contextmanager
def running(method: str) -> Iterator[Call]:
    """Make a call the current one inside a with-block. Local."""
    outer = _current.get()
    call = Call(method if outer is None else f"{outer.name} > {method}", user_line(), outer)
    token = _current.set(call)
    try:
        yield call
    finally:
        _current.reset(token)


_alone: contextvars.ContextVar[str | None] = contextvars.ContextVar("tnt_alone", default=None)


@contextlib.contextmanager
def alone(name: str) -> Iterator[None]:
    """Make known that no other rank takes part in what runs in a with-block. Local."""
    token = _alone.set(name)
    try:
        yield
    finally:
        _alone.reset(token)


def what_is_alone() -> str | None:
    """Return the name of what runs on this rank alone, None if all ranks take part. Local."""
    return _alone.get()


_NOT_THE_USER = {
    *("tarantella", "tnt_comm", "tnt_data", "tnt_keras"),
    *("keras", "tensorflow"),
    *("contextlib", "functools"),
}
"""Top-level packages whose frames may lie between the user's line and us."""


def user_line() -> str:
    """Return the user's nearest line, such as "train.py:31"; "" in a thread of others. Local."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        if _package(frame) not in _NOT_THE_USER:
            file = os.path.basename(frame.f_code.co_filename)
            # Other ranks are told this line, and bytes of a file's name may be no text.
            return f"{file.encode(errors='backslashreplace').decode()}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def user_frames_of(traceback: types.TracebackType | None) -> types.TracebackType | None:
    """Return a traceback without the frames of Keras, TensorFlow and ours. Local."""
    kept = None
    for entry in reversed(_entries(traceback)):
        if _package(entry.tb_frame) not in _NOT_THE_USER:
            kept = types.TracebackType(kept, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return kept


def _entries(traceback: types.TracebackType | None) -> list[types.TracebackType]:
    entries = []
    while traceback is not None:
        entries.append(traceback)
        traceback = traceback.tb_next
    return entries


def _package(frame: types.FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]
