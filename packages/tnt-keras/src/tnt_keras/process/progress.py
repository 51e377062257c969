"""Tell the launcher in which epoch and step this rank is, for the report of a failure.

Each rank has 16 bytes in a memory of the launcher's: epoch and step, from 1 on, as little-endian
integers of 8 bytes; 0 outside of epochs. Writing them costs less than a microsecond.
"""

from __future__ import annotations

import contextlib
import functools
import mmap
import os
import struct
from collections.abc import Callable

from tnt_keras.process.rank import get_local_rank

_LINK = "/memfd:tnt-progress (deleted)"
_ENTRY = struct.Struct("<qq")


def note_progress(epoch: int, step: int) -> None:
    """Tell where this rank is: numbers from 1 on, 0 for none. Local."""
    _writer()(epoch, step)


@functools.cache
def _writer() -> Callable[[int, int], None]:
    """Return what writes into the memory; it does nothing where a launcher has given none."""
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError, ValueError):  # closed by now, or too small
            if os.readlink(f"/proc/self/fd/{name}") == _LINK:
                memory = mmap.mmap(int(name), (get_local_rank() + 1) * _ENTRY.size)
                offset = get_local_rank() * _ENTRY.size
                return functools.partial(_ENTRY.pack_into, memory, offset)
    return _tell_nobody


def _tell_nobody(epoch: int, step: int) -> None:
    """Stand in for a writer."""
