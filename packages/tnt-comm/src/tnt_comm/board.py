"""What this rank tells the launcher, in a memory that the ranks of a host inherit from it.

Each rank has an entry of `ENTRY` bytes: epoch and step as integers of 8 bytes, from 1 on, 0 outside
of epochs; the length of a record as one of 4 bytes; the record, how the rank has failed, as JSON.
From byte `START` on: 1 if the rank has joined the others, else 0, as an integer of 4 bytes; the
length of a text as another one; the text, where in the user's script the rank is until then. The
last integer of the entry is 1 if the launcher ends the job. Below all entries stand the length of a
JSON object as an integer of 4 bytes, and that: where ranks of other hosts are, by rank. All is
little-endian. Writing epoch and step costs less than a microsecond.
"""

import contextlib
import json
import mmap
import os
import struct
from collections.abc import Mapping

from tnt_comm import _core

ENTRY, START = 16384, 15360

_LINK = "/memfd:tnt-board (deleted)"
_PROGRESS = struct.Struct("<qq")
_LENGTH = struct.Struct("<i")
_JOINED = struct.Struct("<i")
_ENDING = struct.Struct("<i")
_MOST_OF_PLACE = ENTRY - START - _JOINED.size - _LENGTH.size - _ENDING.size


def note_progress(epoch: int, step: int) -> None:
    """Tell where this rank is: numbers from 1 on, 0 for none. Local."""
    if _memory is not None:
        _PROGRESS.pack_into(_memory, _core.get_local_rank() * ENTRY, epoch, step)


def has_launcher() -> bool:
    """Return whether somebody reads what this rank tells. Local."""
    return _memory is not None


def note_record(record: Mapping[str, object]) -> None:
    """Tell how this rank has failed. Local."""
    if _memory is None:
        return
    data = json.dumps(record).encode()
    if len(data) <= START - _PROGRESS.size - _LENGTH.size:
        begin = _core.get_local_rank() * ENTRY + _PROGRESS.size + _LENGTH.size
        _memory[begin : begin + len(data)] = data
        _LENGTH.pack_into(_memory, begin - _LENGTH.size, len(data))


def note_joined() -> None:
    """Tell that this rank has joined the others. Local."""
    if _memory is not None:
        _JOINED.pack_into(_memory, _own_start(), 1)


def note_place(place: str) -> None:
    """Tell where this rank is in the user's script, which it need not do any more once joined."""
    data = place.encode(errors="backslashreplace")[:_MOST_OF_PLACE]
    if _memory is not None:
        begin = _own_start() + _JOINED.size + _LENGTH.size
        _memory[begin : begin + len(data)] = data
        _LENGTH.pack_into(_memory, begin - _LENGTH.size, len(data))


def place_of(rank: int) -> str:
    """Return where another rank is, "" if it has not told. Local."""
    local_rank = rank - _core.get_rank() + _core.get_local_rank()
    if _memory is None:
        return ""
    if not 0 <= local_rank < _core.get_local_size():
        return str(_places_of_other_hosts(_memory).get(str(rank), ""))
    begin = local_rank * ENTRY + START + _JOINED.size
    (length,) = _LENGTH.unpack_from(_memory, begin)
    data = _memory[begin + _LENGTH.size : begin + _LENGTH.size + max(length, 0)]
    return data.decode(errors="replace")


def _places_of_other_hosts(memory: mmap.mmap) -> Mapping[str, object]:
    begin = _core.get_local_size() * ENTRY
    (length,) = _LENGTH.unpack_from(memory, begin)
    with contextlib.suppress(ValueError):  # it is being written
        told = json.loads(memory[begin + _LENGTH.size :][: max(length, 0)])
        return told if isinstance(told, dict) else {}
    return {}


def is_ending() -> bool:
    """Return whether the launcher ends the job, such as after a failure. Local."""
    if _memory is None:
        return False
    end = (_core.get_local_rank() + 1) * ENTRY
    return bool(_ENDING.unpack_from(_memory, end - _ENDING.size)[0])


def _own_start() -> int:
    return _core.get_local_rank() * ENTRY + START


def _inherited() -> mmap.mmap | None:
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError, ValueError):  # closed by now, or spoilt
            if os.readlink(f"/proc/self/fd/{name}") == _LINK:
                memory = mmap.mmap(int(name), 0)
                os.close(int(name))  # programs that this rank starts have no part in it
                return memory
    return None


_memory = _inherited()
