"""What the ranks of a host tell the launcher of themselves, in a memory that they inherit."""

# Each rank has an entry of `ENTRY` bytes: epoch and step, from 1 on, 0 outside of epochs; the
# length of a record, and the record as JSON: the fields of `Failure`. At `START` stands whether it
# has joined the others, the length of a text, and the text: where it is until then. The last word
# says that the launcher ends the job, so that a rank has nothing to wait for when it gets a signal.
# Below all entries stand the length of a JSON object and that: where ranks of other hosts are.

from __future__ import annotations

import contextlib
import json
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace

NAME = "tnt-board"  # by which ranks know the descriptor among those that they have inherited
ENTRY, START = 16384, 15360

_HEAD = struct.Struct("<qqi")
_START = struct.Struct("<ii")
_WORD = struct.Struct("<i")


@dataclass(frozen=True)
class Failure:
    """The error that has ended the program of a rank; without `kind` one that it has caught."""

    kind: str = ""  # class of the error, as tracebacks name it
    text: str = ""  # its message, the first line of it
    file: str = ""  # with `line`: the innermost place of the user's own code
    line: int = 0
    # Whose end, error or other call this is a consequence of; `None`: it is the rank's own.
    cause_rank: int | None = None
    time_s: float = 0.0  # when, on the clock of `time.monotonic`

    @property
    def exception(self) -> str:
        """Class and message, as a traceback ends."""
        return ": ".join(filter(None, [self.kind, self.text]))


@dataclass(frozen=True)
class Entry:
    """What a rank has told."""

    epoch: int = 0  # with `step`: where it is in its training
    step: int = 0
    failure: Failure | None = None
    has_joined: bool = False
    place: str = ""  # where it is in the user's script until then

    @property
    def position(self) -> str:
        """Where the rank is or was, in words."""
        if self.epoch <= 0:
            return ""
        return f"in epoch {self.epoch}" + (f", step {self.step}" if self.step > 0 else "")


class Board:
    """Memory without a name that the ranks of a host inherit and write to, an entry for each."""

    # Nothing of it is left when the last process has ended, however that comes.

    def __init__(self, num_ranks: int) -> None:
        """Make the memory; where that is not possible, ranks tell nothing."""
        self._fd, self._num_ranks = -1, num_ranks
        try:
            self._fd = os.memfd_create(NAME)
            os.ftruncate(self._fd, (num_ranks + 1) * ENTRY)
        except OSError:
            self.close()

    @property
    def descriptors(self) -> tuple[int, ...]:
        """What ranks inherit."""
        return (self._fd,) if self._fd >= 0 else ()

    def read(self, local_rank: int) -> Entry:
        """Return what a rank has told so far."""
        if self._fd < 0:
            return Entry()
        entry = os.pread(self._fd, ENTRY, local_rank * ENTRY)
        if len(entry) < ENTRY:  # a rank has made it shorter
            return Entry()
        epoch, step, length = _HEAD.unpack_from(entry)
        record = entry[_HEAD.size : _HEAD.size + length] if length > 0 else b""
        has_joined, length = _START.unpack_from(entry, START)
        place = entry[START + _START.size :][: max(length, 0)].decode(errors="replace")
        return Entry(epoch, step, _failure_of(record), has_joined != 0, place)

    def note_places(self, places: Mapping[int, str]) -> None:
        """Tell all ranks where some of other hosts are, as far as there is room for them."""
        told = dict(sorted(places.items()))
        while len(data := json.dumps(told).encode()) > ENTRY - _WORD.size:
            told = dict(list(told.items())[: len(told) // 2])
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                os.pwrite(self._fd, _WORD.pack(len(data)) + data, self._num_ranks * ENTRY)

    def note_ending(self) -> None:
        """Tell all ranks that the job is being ended."""
        for local_rank in range(self._num_ranks if self._fd >= 0 else 0):
            with contextlib.suppress(OSError):
                os.pwrite(self._fd, _WORD.pack(1), (local_rank + 1) * ENTRY - _WORD.size)

    def close(self) -> None:
        """Give the memory back."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def to_fields(entry: Entry, now: float) -> dict[str, object]:
    """Return an entry as values that JSON knows, for another host, which has a clock of its own."""
    failure = entry.failure
    told = None if failure is None else vars(replace(failure, time_s=failure.time_s - now))
    return {**vars(entry), "failure": told}


def from_fields(
    epoch: int,
    step: int,
    failure: dict[str, object] | None,
    has_joined: bool,
    place: str,
    now: float,
) -> Entry:
    """Return the entry of another host's rank."""
    told = None if failure is None else _failure_of(json.dumps(failure).encode())
    told = None if told is None else replace(told, time_s=told.time_s + now)
    return Entry(epoch, step, told, has_joined, place)


def _failure_of(record: bytes) -> Failure | None:
    with contextlib.suppress(ValueError, TypeError):  # it has been spoilt
        return Failure(**json.loads(record))
    return None
