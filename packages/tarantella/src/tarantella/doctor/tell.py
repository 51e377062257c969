"""Lines of JSON on stdout, by which the processes of `tarantella doctor` tell what they find."""

from __future__ import annotations

import json
import os
from collections.abc import Callable


def begin(check: str) -> None:
    """Tell which check comes next, for those who wait, and if it does not end. Local."""
    _write({"doctor": "begin", "check": check})


def tell(about: str, **values: object) -> None:
    """Tell a fact, of JSON's values by name; `tnt_launch.doctor` knows the words. Local."""
    _write({"doctor": "fact", "about": about, "values": values})


def attempt(check: str, look: Callable[[], None]) -> bool:
    """Do a check, tell it if it cannot be done, return whether it was. Local."""
    begin(check)
    try:
        look()
    except Exception as error:  # whatever an installation that is broken in some way raises
        tell("failure", check=check, why=f"{type(error).__name__}: {error}")
        return False
    return True


def _write(line: dict[str, object]) -> None:
    # In one piece: processes that tell facts one after the other share a pipe with their children.
    os.write(1, json.dumps(line).encode() + b"\n")
