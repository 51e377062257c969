"""The version of this package, which all hosts of a job must share."""

from __future__ import annotations

from importlib import metadata


def own_version() -> str:
    """Return the version of tnt-launch, empty if it is not installed but only found."""
    try:
        return metadata.version("tnt-launch")
    except metadata.PackageNotFoundError:
        return ""
