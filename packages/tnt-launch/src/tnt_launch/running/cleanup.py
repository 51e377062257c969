"""`--cleanup`: end what is left of this user's jobs on this host whose launchers are gone."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import psutil

from tnt_launch.running.job_files import (
    JobRecord,
    RecordFolder,
    candidates,
    files_of_job,
    open_folder,
    remove_files_of_job,
)
from tnt_launch.running.processes import (
    all_pids,
    descendants_of,
    has_variable,
    signal_all,
    start_of,
)

WAIT_S = 5.0  # time that processes have to end after a signal


def clean_up(script: str | None, *, is_forced: bool, is_dry_run: bool) -> int:
    """End leftovers, of one script or all, and say so; return 1 if a process stays, else 0."""
    folders = [folder for folder in map(open_folder, candidates()) if folder is not None]
    jobs = [(folder, record) for folder in folders for record in folder.records()]
    jobs = [(folder, record) for folder, record in jobs if _is_of(record, script)]
    has_ended = True
    for folder, record in jobs:
        has_ended &= _clean_up_job(folder, record, is_forced=is_forced, is_dry_run=is_dry_run)
    if not jobs:
        which = "no jobs of yours are" if script is None else f"no job of yours with {script} is"
        _say(f"{which} recorded on this host")
    for folder in folders:
        folder.close()
    return 0 if has_ended else 1


def _clean_up_job(
    folder: RecordFolder, record: JobRecord, *, is_forced: bool, is_dry_run: bool
) -> bool:
    """Return whether nothing of the job still runs that should not."""
    title = f"job {record.job_id} ({record.script}, in {record.working_directory})"
    if not record.is_of_this_host:
        _say(f"{title}: belongs to host {record.host} or to a container; run --cleanup there")
        return True
    if record.is_running:
        _say(f"{title}: is running, left alone; to end it: kill {record.pid}")
        return True
    pids = processes_of(record.job_id)
    _say(f"{title}: its launcher (pid {record.pid}) has ended, {_count(len(pids), 'process')} left")
    if not is_dry_run:
        pids = _end(record.job_id, signal.SIGKILL if is_forced else signal.SIGTERM, pids)
    for pid in pids:
        what = "would be ended" if is_dry_run else "STILL RUNS" + ("" if is_forced else ": --force")
        _say(f"  pid {pid} {what}: {_command_of(pid)}")
    if is_dry_run or not pids:
        _remove_files(folder, record, is_dry_run=is_dry_run)
    return is_dry_run or not pids


def processes_of(job_id: str) -> set[int]:
    """Return the processes of a job that run, and what they have started; all of this user."""
    # They are known by the variable with which they were started. This process is none of them, nor
    # is any of those from which it descends.
    members = {pid for pid in all_pids() if has_variable(pid, "TNT_JOB_ID", job_id)}
    found = members | {child for pid in members for child in descendants_of(pid)}
    found -= {os.getpid(), *(process.pid for process in psutil.Process().parents())}
    return {pid for pid in found if _runs_for_this_user(pid)}


def _runs_for_this_user(pid: int) -> bool:
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        has_ended = process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
        return process.uids().effective == os.geteuid() and not has_ended
    return False


def _command_of(pid: int) -> str:
    with contextlib.suppress(psutil.Error):
        return " ".join(psutil.Process(pid).cmdline()).strip()[:80]
    return ""


def _end(job_id: str, number: int, pids: Iterable[int]) -> set[int]:
    """Send a signal, wait, and return what is left."""
    starts = {pid: start_of(pid) for pid in pids}

    def is_same(pid: int) -> bool:
        return start_of(pid) == starts[pid]

    if not signal_all(number, is_same, starts):
        return set()
    signal_all(signal.SIGCONT, is_same, starts)  # a stopped process acts on no other signal
    end = time.monotonic() + WAIT_S
    while (left := processes_of(job_id)) and time.monotonic() < end:
        time.sleep(0.02)
    return left


def _remove_files(folder: RecordFolder, record: JobRecord, *, is_dry_run: bool) -> None:
    if is_dry_run:
        paths = [*files_of_job(record.job_id), *filter(_is_own_file, map(Path, record.files))]
    else:
        paths = [*remove_files_of_job(record.job_id), *_unlinked(map(Path, record.files))]
        folder.remove(record)
    for path in paths:
        _say(f"  {path} {'would be ' if is_dry_run else ''}removed")


def _unlinked(paths: Iterable[Path]) -> Iterator[Path]:
    for path in filter(_is_own_file, paths):
        with contextlib.suppress(OSError):
            path.unlink()
            yield path


def _is_own_file(path: Path) -> bool:
    with contextlib.suppress(OSError):
        status = path.lstat()
        return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
    return False


def _is_of(record: JobRecord, script: str | None) -> bool:
    if script is None:
        return True
    path = os.path.join(record.working_directory, record.script)
    return os.path.realpath(path) == os.path.realpath(script)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 'es'}"


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
