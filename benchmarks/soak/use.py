"""What a process and a host hold: memory, descriptors, threads, and what jobs leave behind."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import psutil

SHARED_MEMORY = Path("/dev/shm")
OURS = "tnt-"  # what the names of our shared memory, sockets and notes begin with


@dataclass(frozen=True)
class ProcessUse:
    """Of one process."""

    memory_mb: float  # resident, without what it shares with others
    descriptors: int
    threads: int


@dataclass(frozen=True)
class HostUse:
    """Of all jobs on this host."""

    shared_memory_mb: float  # used in /dev/shm by anybody
    files: int  # of ours, in /dev/shm and the folder of temporary files
    processes: int  # that run a rank or a launcher


def use_of_this_process() -> ProcessUse:
    """Take a look at this process."""
    process = psutil.Process()
    with process.oneshot():
        memory_mb = process.memory_full_info().uss / 1e6
        return ProcessUse(memory_mb, process.num_fds(), process.num_threads())


def use_of_this_host(script: str) -> HostUse:
    """Take a look at what is left on this host; `script` is in the command of each rank."""
    return HostUse(
        psutil.disk_usage(str(SHARED_MEMORY)).used / 1e6,
        sum(_count_of_ours(folder) for folder in (SHARED_MEMORY, Path(tempfile.gettempdir()))),
        sum(script in " ".join(_command(each)) for each in psutil.process_iter(["cmdline"])),
    )


def _count_of_ours(folder: Path) -> int:
    return sum(OURS in path.name for path in folder.iterdir())


def _command(process: psutil.Process) -> list[str]:
    return process.info["cmdline"] or []
