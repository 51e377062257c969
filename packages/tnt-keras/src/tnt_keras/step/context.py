"""Whose step this thread traces or runs, if any."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tnt_keras.step.owner import StepOwner

_current: contextvars.ContextVar[StepOwner | None] = contextvars.ContextVar(
    "tnt_step", default=None
)


def current_owner() -> StepOwner | None:
    """Return the owner of the step that this thread traces or runs, None outside of one. Local."""
    return _current.get()


def is_inside_step() -> bool:
    """Return whether this thread traces or runs a step of all ranks. Local."""
    return _current.get() is not None


@contextlib.contextmanager
def step_scope(owner: StepOwner) -> Iterator[None]:
    """Take what runs in a with-block for a step of all ranks. Local.

    Args:
        owner: Of the step.
    """
    token = _current.set(owner)
    try:
        yield
    finally:
        _current.reset(token)
