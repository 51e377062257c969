"""Which library for networks this process has loaded, and its version."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_NETWORKS_OF_GPI2 = {0: "InfiniBand", 1: "RoCE", 2: "Ethernet"}


@dataclass(frozen=True)
class EngineLibrary:
    """A library that tnt-comm has found and loaded."""

    engine: str  # as `TNT_TRANSPORT` names it
    path: str
    version: str  # empty if it does not tell
    network: str = ""  # the kind of device that it was built for, empty if it does not tell


def loaded_library() -> EngineLibrary | None:
    """Return the library through which the ranks of this job talk, `None` without one. Local."""
    # Call it when the job was joined: what is in the memory of this process is what was found.
    maps = Path("/proc/self/maps").read_text(errors="replace")
    paths = {line.split(maxsplit=5)[5] for line in maps.splitlines() if line.count("/")}
    for path in sorted(paths):
        for name, describe in _LIBRARIES.items():
            if Path(path).name.startswith(name):
                return describe(path)
    return None


def _describe_gpi2(path: str) -> EngineLibrary:
    library = ctypes.CDLL(path)  # which is loaded already
    version, network = ctypes.c_float(), ctypes.c_int(-1)
    library.gaspi_version(ctypes.byref(version))
    library.gaspi_network_type(ctypes.byref(network))
    number = ".".join(str(round(version.value * 100)))  # 1.6 is that of 1.6.0
    return EngineLibrary("gpi2", path, number, _NETWORKS_OF_GPI2.get(network.value, ""))


def _describe_ucx(path: str) -> EngineLibrary:
    library = ctypes.CDLL(path)
    numbers = [ctypes.c_uint() for _ in range(3)]
    library.ucp_get_version(*map(ctypes.byref, numbers))
    return EngineLibrary("ucx", path, ".".join(str(number.value) for number in numbers))


_LIBRARIES: dict[str, Callable[[str], EngineLibrary]] = {
    "libGPI2": _describe_gpi2,
    "libucp.so": _describe_ucx,
}
