"""Where GPI-2 is on this machine, and what tests say where it is not."""

from __future__ import annotations

import ctypes
import functools
import os
import subprocess
from pathlib import Path

import pytest

HOW_TO_GET_IT = (
    "no GPI-2 found: build and install it as its README says (shared library, Ethernet or "
    "InfiniBand device) and set TNT_GPI2_LIBRARY to its libGPI2.so; see docs/howto/use_gpi2.md"
)


@functools.cache
def gpi2_library() -> str | None:
    """Path or name of the library that ranks would load, found as they find it."""
    candidates = [os.environ.get("TNT_GPI2_LIBRARY", "")]
    if not candidates[0]:
        folder = subprocess.run(
            "pkg-config --variable=libdir GPI2", shell=True, capture_output=True, text=True
        ).stdout.strip()
        candidates = [str(Path(folder, "libGPI2.so.0"))] if folder else []
        candidates += ["libGPI2.so.0", "libGPI2.so"]
    for candidate in candidates:
        try:
            ctypes.CDLL(candidate)
        except OSError:
            continue
        return candidate
    return None


needs_gpi2 = pytest.mark.skipif(gpi2_library() is None, reason=HOW_TO_GET_IT)
