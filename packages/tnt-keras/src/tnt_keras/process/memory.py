"""Memory of this process."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any


def give_back_memory() -> None:
    """Give memory that is free in this process back to the operating system. Local.

    The C library keeps what was freed, hundreds of MiB after many large tensors. Where it has no
    way to give it back, nothing happens.
    """
    trim = _trim_function()
    if trim is not None:
        trim(0)


@functools.cache
def _trim_function() -> Callable[[int], Any] | None:
    try:
        trim = ctypes.CDLL(None).malloc_trim  # of glibc
    except (AttributeError, OSError):
        return None
    trim.argtypes = [ctypes.c_size_t]
    return trim
