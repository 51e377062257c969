"""Marks of the program itself in the timeline that `TNT_TIMELINE` asks for.

With `TNT_TIMELINE=trace.json` every rank records what it communicates and when, and the job leaves
one file for all ranks, which https://ui.perfetto.dev and chrome://tracing open. The functions here
add what the program does in between::

    with tnt_comm.timeline.span("load data"):
        ...

Without the variable they do nothing, and cost next to nothing.
"""

from __future__ import annotations

import os
from types import TracebackType

from tnt_comm import _core
from tnt_comm.timeline.files import merge_left_parts


class span:
    """Show the block of a `with` statement as a slice on the row of its thread. Local.

    Slices of a thread are nested. May be used again, even inside itself.

    Args:
        name: Slices of one name belong together, so it should not contain a number; there is room
            for about ten thousand different names.
    """

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        """Begin the slice."""
        _core.begin_slice(self._name)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the slice, even if the block was left by an exception."""
        _core.end_slice(self._name)


def begin(name: str) -> None:
    """Begin a slice on the row of this thread, if a `with` does not fit. Local.

    Args:
        name: As for `span`.
    """
    _core.begin_slice(name)


def end(name: str) -> None:
    """End the innermost slice of that name that is open on this thread, if there is one. Local.

    Args:
        name: As given to `begin`.
    """
    _core.end_slice(name)


def instant(name: str) -> None:
    """Show a moment on the row of this thread. Local.

    Args:
        name: As for `span`.
    """
    _core.mark_instant(name)


def is_on() -> bool:
    """Return whether this process records a timeline, in a job with `TNT_TIMELINE`. Local."""
    return _core.has_timeline()


def merge(path: str | os.PathLike[str]) -> None:
    """Join the parts `PATH.rank0`, `PATH.rank1`, ... that a job has left. Local.

    A job does this itself at its end. It cannot if it was killed as a whole, if its ranks are
    programs without Python, or if its hosts do not share the folder; then collect the parts in one
    folder first. `python -m tnt_comm.timeline PATH` does the same. Each part of a Python program is
    also a valid trace by itself.

    Args:
        path: The value that `TNT_TIMELINE` had. The file is written, and the parts are removed.

    Raises:
        ValueError: If there are no parts.
        tnt_comm.CommError: If a file cannot be read or written.
    """
    merge_left_parts(os.fspath(path))
