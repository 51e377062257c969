"""Processes and files that outlive ranks or the launcher: find them, and end them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence

from tnt_launch.running.job_files import remove_files_of_job
from tnt_launch.running.processes import (
    children_of,
    descendants_of,
    has_variable,
    signal_all,
    start_of,
    top_of,
)
from tnt_launch.running.signals import ENDING

PR_SET_CHILD_SUBREAPER = 36

LIMIT_S = 2.0  # that killed processes have to end; one that waits for a device may take longer
LOOK_S = 1.0  # time between two looks at what descends from the launcher


class Orphans:
    """Find what ranks have started, in sessions of their own too, and end it. Not thread-safe."""

    # The kernel makes this process the parent of whatever a rank leaves behind, so all of it
    # descends from this process. What this process had as children before does not count.

    def __init__(self, ranks: Callable[[], Iterable[int]]) -> None:
        """Become the parent of orphans. Call it before the first rank is started."""
        self._ranks = ranks
        self._others = set(children_of(os.getpid()))
        _adopt_orphans(True)

    def send_signal(self, number: int) -> bool:
        """Send a signal to all that run; return whether there was one."""
        groups = set(self._ranks())
        tops = descendants_of(os.getpid())
        candidates = [pid for pid, top in tops.items() if top not in self._others]

        def is_orphan(pid: int) -> bool:
            top = top_of(pid, os.getpid())
            if top is None or top in self._others:
                return False
            with contextlib.suppress(ProcessLookupError):
                return os.getpgid(pid) not in groups
            return False

        return signal_all(number, is_orphan, candidates)

    def reap(self) -> None:
        """Let those that have ended disappear, as the parent that they lost would have done."""
        with contextlib.suppress(ChildProcessError):
            # One look, before all processes of the host are asked for their parents.
            if os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                return
        for pid in set(children_of(os.getpid())) - self._others - set(self._ranks()):
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)

    def close(self) -> None:
        """Kill all that are left."""
        end = time.monotonic() + LIMIT_S
        while self.send_signal(signal.SIGKILL) and time.monotonic() < end:
            time.sleep(0.01)
        self.reap()
        _adopt_orphans(False)


def _adopt_orphans(is_on: bool) -> None:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(is_on))


class Watchdog:
    """Remember process groups in a process of its own, and kill them when this one dies."""

    # The kernel kills the ranks themselves when their parent dies, but not what they started. The
    # watchdog waits for the end of a pipe whose other end only the launcher holds.

    def __init__(self, job_id: str, files: Sequence[str] = ()) -> None:
        """Start the watchdog. Call it while this process has one thread and no ranks."""
        read_end, self._write_end = os.pipe()
        others = children_of(os.getpid())
        self._pid = os.fork()
        if self._pid == 0:
            try:
                os.close(self._write_end)
                _guard(read_end, job_id, files, others)
            finally:
                os._exit(0)
        os.close(read_end)

    def add(self, group: int) -> None:
        """Put a process group under guard."""
        self._tell(b"+%d\n" % group)

    def remove(self, group: int) -> None:
        """Forget a process group; call it before its number can be used again."""
        self._tell(b"-%d\n" % group)

    def close(self) -> None:
        """Let the watchdog end; it kills the groups that were not removed."""
        os.close(self._write_end)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, 0)

    def _tell(self, line: bytes) -> None:
        # Without a watchdog there is still the kernel, which ends the ranks themselves.
        with contextlib.suppress(BrokenPipeError):
            os.write(self._write_end, line)


def _guard(read_end: int, job_id: str, files: Sequence[str], others: Sequence[int]) -> None:
    # A session of its own, and no reaction to signals: what ends the launcher must not end the
    # watchdog.
    os.setsid()
    for number in (signal.SIGQUIT, *ENDING):
        signal.signal(number, signal.SIG_IGN)
    # It must not keep anybody's pipe open.
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.closerange(3, read_end)
    os.closerange(read_end + 1, 1 << 16)
    groups, seen = _watch(read_end, {*others, os.getpid()})
    for group in groups:
        with contextlib.suppress(OSError):
            os.killpg(group, signal.SIGKILL)
    if groups:  # the launcher has not ended them
        _end_all_of_job(job_id, seen)
    remove_files_of_job(job_id)
    for path in files:
        with contextlib.suppress(OSError):
            os.unlink(path)


def _watch(read_end: int, others: Container[int]) -> tuple[set[int], dict[int, int]]:
    """Note process groups, and the start of all that descends from the launcher, until it ends."""
    # `others` are children of the launcher that have nothing to do with the job.
    launcher = os.getppid()
    groups: set[int] = set()
    seen: dict[int, int] = {}
    rest = b""
    while True:
        if not select.select([read_end], [], [], LOOK_S)[0]:
            tops = descendants_of(launcher)
            seen = {pid: start_of(pid) for pid, top in tops.items() if top not in others}
            continue
        data = os.read(read_end, 4096)
        if not data:
            return groups, seen
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            (groups.add if line.startswith(b"+") else groups.discard)(int(line[1:]))


def _end_all_of_job(job_id: str, seen: Mapping[int, int]) -> None:
    # With the launcher and the ranks it is gone who descends from them, but not who was seen to,
    # nor the variables that processes had from them.
    def is_of_job(pid: int) -> bool:
        return seen.get(pid) == start_of(pid) or has_variable(pid, "TNT_JOB_ID", job_id)

    end = time.monotonic() + LIMIT_S
    while signal_all(signal.SIGKILL, is_of_job):
        if time.monotonic() > end:
            break
        time.sleep(0.01)
