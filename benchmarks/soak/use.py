"""What a process holds: memory, descriptors, threads; and what jobs leave on a host."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

FOLDERS = (Path("/dev/shm"), Path(tempfile.gettempdir()))
OURS = "tnt-"  # what the names of our shared memory, sockets and notes begin with
LOOK_S = 0.2


@dataclass(frozen=True)
class ProcessUse:
    """Of one process."""

    memory_mib: float  # resident, without what it shares with others
    descriptors: int
    threads: int


@dataclass(frozen=True)
class OnHost:
    """What is there on this host, whoever it belongs to."""

    files: frozenset[Path]  # with names as ours, in /dev/shm and the folder of temporary files
    processes: frozenset[int]  # that run a script

    @property
    def file_bytes(self) -> int:
        """Of all files together that still exist."""
        return sum(path.stat().st_size for path in self.files if path.exists())


def use_of_this_process() -> ProcessUse:
    """Take a look at this process."""
    process = psutil.Process()
    with process.oneshot():
        memory_mib = process.memory_full_info().uss / 2**20
        return ProcessUse(memory_mib, process.num_fds(), process.num_threads())


def look_at_host(script: str) -> OnHost:
    """Take a look at this host; `script` is in the command of each process that counts."""
    return OnHost(
        frozenset(path for folder in FOLDERS for path in folder.iterdir() if OURS in path.name),
        frozenset(
            process.pid
            for process in psutil.process_iter(["cmdline"])
            if script in " ".join(process.info["cmdline"] or ())
        ),
    )


def left_since(before: OnHost, script: str, timeout_s: float) -> OnHost:
    """What was not there before, and stays: other jobs' things come, and go again in time."""
    end = time.monotonic() + timeout_s
    left = _without(look_at_host(script), before)
    while (left.files or left.processes) and time.monotonic() < end:
        time.sleep(LOOK_S)
        now = look_at_host(script)
        left = OnHost(left.files & now.files, left.processes & now.processes)
    return left


def _without(now: OnHost, before: OnHost) -> OnHost:
    return OnHost(now.files - before.files, now.processes - before.processes)
