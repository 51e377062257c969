"""Run processes that are no ranks of a job, with a deadline, and hand on what they print."""

from __future__ import annotations

import contextlib
import selectors
import time
from collections.abc import Callable, Sequence

from tnt_launch.errors import LaunchError
from tnt_launch.output.files import Stream
from tnt_launch.planning.plan import LaunchPlan
from tnt_launch.running.agent import Agent, Hosts, Listener, ThisHost, end_together
from tnt_launch.running.board import Entry
from tnt_launch.running.ending import exit_text
from tnt_launch.running.signals import ENDING, SignalInbox

_LOOK_S = 0.5
_MOST_LINES = 3
_MOST_ERRORS = 1 << 16  # bytes of stderr that are kept


def run_watched(
    plan: LaunchPlan,
    hosts: Hosts | None,  # this host alone without them
    on_output: Callable[[int, bytes], None],  # what a process wrote to stdout
    on_end: Callable[[int, str], None],  # once for each rank: why it has failed, or nothing
    on_wait: Callable[[], None],  # now and then while nothing happens
    limit_s: float,
) -> None:
    """Run until all have ended, or for `limit_s`, in the main thread; leave nothing of them."""
    with contextlib.ExitStack() as stack:
        if hosts is None:
            hosts = ThisHost(stack.enter_context(selectors.PollSelector()))
        _Watched(plan, hosts, on_output, on_end, on_wait).run(limit_s)


class _Watched(Listener):
    def __init__(
        self,
        plan: LaunchPlan,
        hosts: Hosts,
        on_output: Callable[[int, bytes], None],
        on_end: Callable[[int, str], None],
        on_wait: Callable[[], None],
    ) -> None:
        self._plan, self._hosts = plan, hosts
        self._on_output, self._on_end, self._on_wait = on_output, on_end, on_wait
        self._errors = {rank.rank: bytearray() for rank in plan.ranks}
        self._running = set(self._errors)
        self._agents: Sequence[Agent] = ()

    def run(self, limit_s: float) -> None:
        """Run until all have ended, or for `limit_s`, in the main thread; leave nothing of them."""
        with SignalInbox() as inbox:
            selector = self._hosts.selector
            selector.register(inbox, selectors.EVENT_READ, lambda: self._take_signals(inbox))
            try:
                self._start_and_wait(limit_s)
            except LaunchError as error:
                self._end_all(str(error))
            finally:
                end_together(self._agents, self._hosts)
                selector.unregister(inbox)
        self._end_all(f"it did not end within {limit_s:g} s")

    def on_output(self, rank: int, stream: Stream, data: bytes) -> None:
        """Take what a process wrote."""
        if stream == "stderr":
            self._errors[rank] += data
            del self._errors[rank][:-_MOST_ERRORS]
        elif rank in self._running:
            self._on_output(rank, data)

    def on_exit(self, rank: int, exit_code: int, told: Entry, why_lost: str = "") -> None:
        """Take note that a process has ended."""
        if rank not in self._running:
            return
        self._running.remove(rank)
        errors = self._errors[rank].decode(errors="replace")
        lines = [line for line in errors.splitlines() if line.strip()]
        why = why_lost
        if exit_code != 0 and not why:
            why = ": ".join(
                [exit_text(exit_code), *([" ".join(lines[-_MOST_LINES:])] * bool(lines))]
            )
        self._on_end(rank, why)

    def _start_and_wait(self, limit_s: float) -> None:
        end = time.monotonic() + limit_s
        self._agents = self._hosts.agents(self._plan, self, False)
        for agent in self._agents:
            agent.start()
        while self._running and time.monotonic() < end:
            self._on_wait()
            now = time.monotonic()
            due = self._hosts.tick(now)
            until = min(end, now + _LOOK_S, *([] if due is None else [due]))
            for key, _ in self._hosts.selector.select(max(until - now, 0)):
                key.data()

    def _take_signals(self, inbox: SignalInbox) -> None:
        if any(number in ENDING for number in inbox.take()):
            raise KeyboardInterrupt
        for agent in self._agents:
            agent.reap()

    def _end_all(self, why: str) -> None:
        for rank in sorted(self._running):
            self._on_end(rank, why)
        self._running.clear()
