"""What runs on this rank alone, such as a callback of the master: others do not take part in it."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator

_name: contextvars.ContextVar[str | None] = contextvars.ContextVar("tnt_alone", default=None)


@contextlib.contextmanager
def alone(name: str) -> Iterator[None]:
    """Make known that no other rank takes part in what runs in a with-block. Local.

    Args:
        name: Of what runs, for messages: "CSVLogger".
    """
    token = _name.set(name)
    try:
        yield
    finally:
        _name.reset(token)


def what_is_alone() -> str | None:
    """Return the name of what runs on this rank alone, None if all ranks take part. Local."""
    return _name.get()
