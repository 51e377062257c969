"""Processes of this host, as /proc shows them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

PROC = Path("/proc")


def processes_above(pid: int, proc: Path = PROC) -> Iterator[tuple[int, str]]:
    """Yield number and name of a process, of its parent, of the parent of that, and so on."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        while pid > 0:
            name, parent = _name_and_parent(proc / str(pid))
            yield pid, name
            pid = parent


def parent_of(process: Path) -> int | None:
    """Return the number of the parent of a process, None if the process has ended."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return _name_and_parent(process)[1]
    return None


def variables_of(process: Path) -> list[bytes]:
    """Return the environment that a process was started with. Raises an OSError."""
    return (process / "environ").read_bytes().split(b"\0")


def _name_and_parent(process: Path) -> tuple[str, int]:
    name, _, rest = (process / "stat").read_text().partition("(")[2].rpartition(")")
    return name, int(rest.split()[1])
