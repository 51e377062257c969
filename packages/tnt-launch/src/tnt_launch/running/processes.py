"""Processes of this host by what `/proc` says about them, and limits that they meet."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import resource
import signal
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tnt_launch.errors import LaunchError

PROC = Path("/proc")
_STEP = re.compile(r"slurmstepd: \[(.*)\]")
_LIMITS = {
    errno.EMFILE: (resource.RLIMIT_NOFILE, "open files (ulimit -n)"),
    errno.EAGAIN: (resource.RLIMIT_NPROC, "processes and threads (ulimit -u)"),
}


def state_of(pid: int) -> str:
    """Return the letter of a process's state, such as `"T"` if it is stopped; `""` without it."""
    return _stat(pid)[0]


def parent_of(pid: int) -> int:
    """Return the parent of a process, 0 if it has none or is gone."""
    return int(_stat(pid)[1])


def start_of(pid: int) -> int:
    """Return when a process was started, in ticks since the boot of the host; -1 without it."""
    return int(_stat(pid)[2])


def children_of(parent: int) -> list[int]:
    """Return the children of a process, also those that have ended and were not waited for."""
    tasks = PROC / str(parent) / "task"
    try:
        lists = [(tasks / task / "children").read_text() for task in os.listdir(tasks)]
    except OSError:  # it has ended, or the kernel does not keep such lists
        return [pid for pid in all_pids() if parent_of(pid) == parent]
    return [int(pid) for pid in " ".join(lists).split()]


def descendants_of(ancestor: int) -> dict[int, int]:
    """Return all that descend from a process, each with the child of it that is its ancestor."""
    tops = {child: child for child in children_of(ancestor)}
    found = list(tops)
    for pid in found:  # which grows meanwhile
        below = children_of(pid)
        tops.update(dict.fromkeys(below, tops[pid]))
        found += below
    return tops


def top_of(pid: int, ancestor: int) -> int | None:
    """Return the child of `ancestor` from which a process descends, `None` if there is none."""
    while pid > 1:
        parent = parent_of(pid)
        if parent == ancestor:
            return pid
        pid = parent
    return None


def step_of_slurm() -> str:
    """Return the step whose process is above this one, `7.0` or `7.batch`; `""` if none is."""
    pid = os.getppid()
    while pid > 1:
        title = _STEP.match(_bytes_of(pid, "cmdline").decode(errors="replace"))
        if title is not None:
            return title[1]
        pid = parent_of(pid)
    return ""


def has_variable(pid: int, name: str, value: str) -> bool:
    """Return whether a process was started with an environment variable."""
    return f"{name}={value}".encode() in _bytes_of(pid, "environ").split(b"\0")


def signal_all(
    number: int, is_meant: Callable[[int], bool], pids: Iterable[int] | None = None
) -> bool:
    """Send a signal to all processes of a kind; return whether there was one that runs."""
    was_found = False
    for pid in all_pids() if pids is None else pids:
        if not is_meant(pid) or state_of(pid) in "ZX":
            continue
        with contextlib.suppress(OSError):  # it is gone, or has become another user's
            was_found |= _signal(pid, number, is_meant)
    return was_found


def _signal(pid: int, number: int, is_meant: Callable[[int], bool]) -> bool:
    descriptor = os.pidfd_open(pid)
    try:
        if not is_meant(pid):  # by now the number is another process's
            return False
        signal.pidfd_send_signal(descriptor, number)
    finally:
        os.close(descriptor)
    return True


def all_pids() -> Iterator[int]:
    """Give the numbers of all processes of this host."""
    return (int(name) for name in os.listdir(PROC) if name.isdigit())


def _bytes_of(pid: int, file: str) -> bytes:
    """Return the content of a file, nothing if the process is somebody else's or gone."""
    try:
        return (PROC / str(pid) / file).read_bytes()
    except OSError:
        return b""


def _stat(pid: int) -> tuple[str, str, str]:
    """Return state, parent, and ticks from the boot of the host to the start of a process."""
    try:
        content = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return "", "0", "-1"
    fields = content.rpartition(")")[2].split()
    return fields[0], fields[1], fields[19]


def advice_for(error: BaseException) -> str | None:
    """Return a sentence about the limit that an error comes from, `None` if it comes from none."""
    if not isinstance(error, OSError) or error.errno not in _LIMITS:
        return None
    number, what = _LIMITS[error.errno]
    limit = resource.getrlimit(number)[0]
    if limit == resource.RLIM_INFINITY:
        return f"This process has no limit of {what}: that of the host or container is reached."
    return f"The limit of {what} is {limit}: raise it."


@contextlib.contextmanager
def limits_told() -> Iterator[None]:
    """Make an error that comes from a limit in the block a LaunchError of one sentence."""
    try:
        yield
    except OSError as error:
        advice = advice_for(error)
        if advice is None:
            raise
        raise LaunchError(f"the job cannot be started: {error}. {advice}") from error
