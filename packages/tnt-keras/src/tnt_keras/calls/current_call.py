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
from typing import Generic, TypeVar

from tnt_comm.failure import printable

_Value = TypeVar("_Value")


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


class Scoped(Generic[_Value]):
    """A value that holds in a with-block, for what this thread does in it."""

    def __init__(self, name: str) -> None:
        self._variable: contextvars.ContextVar[_Value | None]
        self._variable = contextvars.ContextVar(name, default=None)

    def get(self) -> _Value | None:
        """Return the value of the innermost block, None outside of all. Local."""
        return self._variable.get()

    @contextlib.contextmanager
    def holding(self, value: _Value | None) -> Iterator[None]:
        """Hold a value in a with-block. Local."""
        token = self._variable.set(value)
        try:
            yield
        finally:
            self._variable.reset(token)


_current: Scoped[Call] = Scoped("tnt_call")

on_one_rank: Scoped[str] = Scoped("tnt_on_one_rank")
"""The name of what runs on this rank without the others, None if all ranks take part."""


def current_call() -> Call | None:
    """Return the innermost call that is running, None outside of all. Local."""
    return _current.get()


@contextlib.contextmanager
def running(method: str) -> Iterator[Call]:
    """Make a call the current one inside a with-block. Local."""
    outer = _current.get()
    call = Call(method if outer is None else f"{outer.name} > {method}", user_line(), outer)
    with _current.holding(call):
        yield call


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
            # Other ranks are told this line.
            return f"{printable(os.path.basename(frame.f_code.co_filename))}:{frame.f_lineno}"
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
