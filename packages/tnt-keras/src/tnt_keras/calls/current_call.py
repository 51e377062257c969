"""The public call that is running on this rank, such as `fit`, and what runs on it alone.

All messages of a call carry its name, so that ranks in different calls do not mix them up.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
from collections.abc import Iterator

from tnt_keras.calls.user_frames import user_line


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
