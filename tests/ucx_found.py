"""Whether there is a UCX on this machine, and what tests say where there is none."""

from __future__ import annotations

import ctypes
import functools
import os
from importlib.util import find_spec
from pathlib import Path

import pytest

HOW_TO_GET_IT = "no UCX found: pip install libucx-cu12, or set TNT_UCX_LIBRARY to a libucp.so.0"


@functools.cache
def has_ucx() -> bool:
    """Whether ranks would find a library; loads none of the wheel, whose settings they make."""
    stated = os.environ.get("TNT_UCX_LIBRARY", "")
    if stated:
        return Path(stated).exists()
    if find_spec("libucx") is not None:
        return True
    try:
        ctypes.CDLL("libucp.so.0")
    except OSError:
        return False
    return True


needs_ucx = pytest.mark.skipif(not has_ucx(), reason=HOW_TO_GET_IT)
