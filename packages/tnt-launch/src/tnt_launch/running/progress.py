"""Where the ranks of a host are in their training, as far as they tell it; read after their end."""

from __future__ import annotations

import os
import struct
from typing import NamedTuple

NAME = "tnt-progress"  # by which ranks know the descriptor among those that they have inherited

_ENTRY = struct.Struct("<qq")  # epoch and step, from 1 on; 0: in no epoch


class Progress(NamedTuple):
    """A place in a training, counted from 1."""

    epoch: int
    step: int


class ProgressBoard:
    """Memory without a name that the ranks of a host inherit and write to, an entry for each."""

    # Nothing of it is left when the last process has ended, however that comes.

    def __init__(self, num_ranks: int) -> None:
        """Make the memory; where that is not possible, ranks tell nothing."""
        self._fd = -1
        try:
            self._fd = os.memfd_create(NAME)
            os.ftruncate(self._fd, num_ranks * _ENTRY.size)
        except OSError:
            self.close()

    @property
    def descriptors(self) -> tuple[int, ...]:
        """What ranks inherit."""
        return (self._fd,) if self._fd >= 0 else ()

    def read(self, local_rank: int) -> Progress | None:
        """Return where a rank is or was, `None` if it is not in an epoch or does not tell."""
        if self._fd < 0:
            return None
        entry = os.pread(self._fd, _ENTRY.size, local_rank * _ENTRY.size)
        if len(entry) < _ENTRY.size:  # a rank has made it shorter
            return None
        progress = Progress(*_ENTRY.unpack(entry))
        return progress if progress.epoch > 0 else None

    def close(self) -> None:
        """Give the memory back."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
