"""Files of a job on its host: names for GPI-2, notes of ended ranks, shared memory left behind."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from tnt_launch.planning.transports import MachineFile

SHARED_MEMORY = Path("/dev/shm")


@contextlib.contextmanager
def machine_file_written(file: MachineFile | None) -> Iterator[None]:
    """Keep the file, readable by this user alone, during the block."""
    if file is None:
        yield
        return
    descriptor = os.open(file.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "w") as lines:
            lines.writelines(f"{host}\n" for host in file.hosts)
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(file.path)


def note_end_of_rank(job_id: str, rank: int, how: str) -> None:
    """Write the file in which other ranks of this host read how a rank has ended."""
    # A rank that waits for others to join the job looks for it, so that it need not wait for a rank
    # that will never come. The file appears with its whole content.
    path = SHARED_MEMORY / f"tnt-{job_id}-ended-{rank}"
    part = path.with_name(path.name + ".part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w") as file:
        file.write(how)
    os.rename(part, path)


def remove_end_notes(job_id: str) -> None:
    """Remove what `note_end_of_rank` wrote."""
    _remove(f"tnt-{job_id}-ended-*")


def remove_files_of_job(job_id: str) -> list[Path]:
    """Remove what killed ranks left in shared memory, normally nothing, and return it."""
    return _remove(f"tnt-{job_id}-*")


def files_of_job(job_id: str) -> list[Path]:
    """Return what `remove_files_of_job` would remove."""
    return sorted(SHARED_MEMORY.glob(f"tnt-{job_id}-*"))


def _remove(pattern: str) -> list[Path]:
    removed = []
    for path in SHARED_MEMORY.glob(pattern):
        try:
            path.unlink()
        except OSError:  # somebody else's, or gone already
            continue
        removed.append(path)
    return removed
