"""Which Python and which packages a host has, and which of them the packages ask for."""

from __future__ import annotations

import platform
import re
import sys
from importlib import metadata

from tarantella._versions import PARTS, versions
from tarantella.doctor.tell import tell

# Name, extras, versions; then perhaps a condition.
_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)\s*(?:\[[^\]]*\])?\s*\(?(?P<versions>[^;()]*)")
_ALSO = ("tensorflow", "keras", "numpy")


def tell_python() -> None:
    """Tell about the Python of this process. Local."""
    tell(
        "python",
        version=platform.python_version(),
        path=sys.executable,
        required=_required_python(),
    )


def tell_packages() -> None:
    """Tell which packages are installed, and which versions of others each of ours asks for."""
    installed = {
        name: version for name, version in versions().items() if not name.startswith("UCX_")
    }
    tell("packages", installed=installed, required={part: _required_by(part) for part in PARTS})


def _required_python() -> str:
    try:
        described = metadata.metadata("tarantella")
    except metadata.PackageNotFoundError:
        return ""
    return str(described.json.get("requires_python", ""))


def _required_by(part: str) -> dict[str, str]:
    """Return the versions of our packages and of TensorFlow and the like that a package takes."""
    try:
        lines = metadata.requires(part) or []
    except metadata.PackageNotFoundError:
        return {}
    found = {}
    for line in lines:
        requirement = _REQUIREMENT.match(line)
        if requirement is not None and requirement["name"] in (*PARTS, *_ALSO):
            found[requirement["name"]] = requirement["versions"].strip()
    return found
