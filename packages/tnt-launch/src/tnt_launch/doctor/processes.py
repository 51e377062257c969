"""Run one process on each host, which tells facts as lines of JSON, with a deadline for all."""

from __future__ import annotations

import json
import selectors
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tnt_launch.errors import LaunchError
from tnt_launch.output.files import Stream
from tnt_launch.output.report import exit_text
from tnt_launch.output.stream import LineSplitter, Tail
from tnt_launch.planning.plan import LaunchPlan
from tnt_launch.running.agent import Agent, Hosts, Listener, end_together
from tnt_launch.running.board import Entry
from tnt_launch.running.signals import ENDING, SignalInbox

_LOOK_S = 0.5
_MOST_LINES = 3


@dataclass(frozen=True)
class Fact:
    """What a process has found."""

    about: str  # `"begin"` if a check begins, `"failure"` if one has failed
    values: Mapping[str, Any] = field(default_factory=dict)


class FactReader:
    """Cuts what a process writes to stdout into facts."""

    def __init__(self) -> None:
        self._splitter = LineSplitter()

    def feed(self, data: bytes) -> list[Fact]:
        """Add bytes and return the facts that are complete now; other lines are left out."""
        facts = map(_parse, self._splitter.feed(data))
        return [fact for fact in facts if fact is not None]


def _parse(line: bytes) -> Fact | None:
    try:
        told = json.loads(line)
    except ValueError:  # something that a library prints
        return None
    kind = told.get("doctor") if isinstance(told, dict) else None
    if kind == "begin":
        return Fact("begin", {"check": told["check"]})
    return Fact(told["about"], told["values"]) if kind == "fact" else None


class Processes(Listener):
    """The processes of a plan, one for each rank; a `Listener`. Not thread-safe."""

    def __init__(
        self,
        plan: LaunchPlan,
        hosts: Hosts,
        on_fact: Callable[[int, Fact], None],
        on_end: Callable[[int, str], None],  # once for each rank: why it has failed, or nothing
        on_wait: Callable[[], None],  # now and then while nothing happens
    ) -> None:
        self._plan, self._hosts = plan, hosts
        self._on_fact, self._on_end, self._on_wait = on_fact, on_end, on_wait
        ranks = [rank.rank for rank in plan.ranks]
        self._readers = {rank: FactReader() for rank in ranks}
        self._errors = {rank: Tail() for rank in ranks}
        self._running = set(ranks)
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
            self._errors[rank].feed(data)
            return
        for fact in self._readers[rank].feed(data):
            if rank in self._running:
                self._on_fact(rank, fact)

    def on_exit(self, rank: int, exit_code: int, told: Entry, why_lost: str = "") -> None:
        """Take note that a process has ended."""
        if rank not in self._running:
            return
        self._running.remove(rank)
        lines = [line for line in self._errors[rank].text().splitlines() if line.strip()]
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
