"""The version of this package, which all hosts of a job must share."""

from __future__ import annotations

from importlib import metadata


def own_version() -> str:
    """Return the version of tnt-launch, empty if it is not installed but only found."""
    try:
        return metadata.version("tnt-launch")
    except metadata.PackageNotFoundError:
        return ""


def version_difference(who: str, version: str, here: str) -> str:
    """Say that two hosts have different versions, nothing if they have the same."""
    own = own_version()
    if version == own:
        return ""
    return (
        f"{who} has tarantella {version or '(not installed)'}, {here} has "
        f"{own or '(not installed)'}. Install the same version on all hosts."
    )
