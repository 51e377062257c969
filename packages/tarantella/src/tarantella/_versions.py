"""Which releases are installed: the first thing to look at when something fails."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version

PARTS = ("tarantella", "tnt-comm", "tnt-data", "tnt-keras", "tnt-launch")
# TensorFlow without GPUs is a distribution of its own that provides the same modules.
FOUNDATIONS = (("tensorflow", "tensorflow-cpu"), ("keras",), ("numpy",), ("libucx-cu12",))


def versions() -> dict[str, str]:
    """Return the releases of Tarantella's parts and of what they need, for reports. Local.

    Returns:
        Version by name of distribution, "python" after them. What is not installed has the version
        "not installed". At the end the settings of UCX that are made here, `UCX_...`, since they
        win over those that Tarantella makes.

    Example:
        >>> import tarantella as tnt
        >>> for name, version in tnt.versions().items():
        ...     print(f"{name:<12} {version}")  # doctest: +SKIP
        tarantella   1.0.0rc1
        ...
    """
    table = {name: _installed(name) for name in PARTS}
    table |= {names[0]: _installed(*names) for names in FOUNDATIONS}
    table["python"] = platform.python_version()
    return table | {
        name: os.environ[name] for name in sorted(os.environ) if name.startswith("UCX_")
    }


def _installed(*names: str) -> str:
    for name in names:
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return "not installed"
