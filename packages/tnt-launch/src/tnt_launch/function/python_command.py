"""The command line of a process that imports what this one can import."""

from __future__ import annotations

import os
import sys

from tnt_launch.errors import LaunchError


def interpreter() -> str:
    """Return the path of the Python that runs this process."""
    if not sys.executable:
        raise LaunchError("`sys.executable` is empty: set it to the path of the Python to start.")
    return sys.executable


def command_of(module: str, *arguments: int | str) -> tuple[str, str]:
    """Return options of Python that call `main` of a module with arguments."""
    # The search path is this process's from the first import on, so that no file beside a script or
    # notebook takes the place of a module, unless it does so here too.
    path = [os.fspath(entry) for entry in sys.path]
    call = f"main({', '.join(map(repr, arguments))})"
    return "-c", f"import sys; sys.path[:] = {path!r}; from {module} import main; {call}"
