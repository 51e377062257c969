"""Which releases are installed: the first thing to look at when something fails."""

import platform
from importlib.metadata import PackageNotFoundError, version

PARTS = ("tarantella", "tnt-comm", "tnt-data", "tnt-keras", "tnt-launch")
# TensorFlow without GPUs is a distribution of its own that provides the same modules.
FOUNDATIONS = (("tensorflow", "tensorflow-cpu"), ("keras",), ("numpy",))


def versions() -> dict[str, str]:
    """Return the releases of Tarantella's parts and of what they need, for reports. Local.

    Returns:
        Version by name of distribution, "python" last. What is not installed has the version
        "not installed".

    Example:
        >>> import tarantella as tnt
        >>> for name, version in tnt.versions().items():
        ...     print(f"{name:<12} {version}")  # doctest: +SKIP
        tarantella   0.1.0
        ...
    """
    table = {name: _installed(name) for name in PARTS}
    table |= {names[0]: _installed(*names) for names in FOUNDATIONS}
    return table | {"python": platform.python_version()}


def _installed(*names: str) -> str:
    for name in names:
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return "not installed"
