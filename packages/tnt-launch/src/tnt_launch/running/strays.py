"""Processes that ranks have started and that have left the ranks' process groups."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterable

from tnt_launch.running.processes import children_of, descendants_of, signal_all, top_of

PR_SET_CHILD_SUBREAPER = 36

LIMIT_S = 2.0  # time that killed processes have to end; one that waits for a device may take longer


class Strays:
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

        def is_stray(pid: int) -> bool:
            top = top_of(pid, os.getpid())
            if top is None or top in self._others:
                return False
            with contextlib.suppress(ProcessLookupError):
                return os.getpgid(pid) not in groups
            return False

        return signal_all(number, is_stray, candidates)

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
