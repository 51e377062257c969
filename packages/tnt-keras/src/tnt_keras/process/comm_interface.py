"""Whether the tnt-comm of this installation has the C interface that our operations call.

Its header says so and is read without importing it. Versions of siblings that are out of range
otherwise are told by `pip check` and by `tarantella doctor`.
"""

from __future__ import annotations

import importlib.util
import os
import re

NEEDED = 2  # as in comm_c_api.h

REDUCTIONS = ("sum", "prod", "min", "max", "and", "or")
"""Of the C interface, in the order of their numbers: how two elements become one."""

_VERSION = re.compile(r"^\s*#\s*define\s+TNT_COMM_ABI_VERSION\s+(\d+)", re.MULTILINE)


def check_c_interface() -> None:
    """Refuse a tnt-comm with another version of the C interface. Local."""
    spec = importlib.util.find_spec("tnt_comm")
    if spec is None:  # which is told where it is imported
        return
    for folder in spec.submodule_search_locations or ():
        version = _version_in(os.path.join(folder, "include", "tnt", "comm", "tnt_comm.h"))
        if version not in (None, NEEDED):
            raise ImportError(_sentence(folder, version))


def _version_in(header: str) -> int | None:
    try:
        with open(header, encoding="utf-8") as file:
            found = _VERSION.search(file.read())
    except FileNotFoundError:  # the folder of the sources, in an editable installation
        return None
    return int(found[1]) if found else None


def _sentence(folder: str, version: int | None) -> str:
    from importlib import metadata  # rarely needed, and slow

    there = metadata.distributions(name="tnt-comm", path=[os.path.dirname(folder)])
    own = metadata.distribution("tnt-keras")
    return (
        f"tnt-keras {own.version} needs version {NEEDED} of the C interface of tnt-comm, but "
        f"{' '.join(['tnt-comm', *(one.version for one in there)])} ({folder}) has version "
        f"{version}: install all packages of Tarantella from one release."
    )
