"""A job while it runs: one loop over output, ends of ranks, signals and deadlines."""

from __future__ import annotations

import math
import os
import selectors
import signal
import time
from collections.abc import Sequence
from dataclasses import replace

from tnt_launch.log import LOGGER
from tnt_launch.output.files import Stream
from tnt_launch.output.router import OutputRouter
from tnt_launch.planning.plan import LaunchPlan
from tnt_launch.running.agent import Agent, Hosts
from tnt_launch.running.board import Entry, Failure
from tnt_launch.running.ending import LEFT, RankEnd, exit_text, time_of_end
from tnt_launch.running.signals import ASKING, ENDING, SignalInbox

TERMINATE_S = 1.5  # time between SIGTERM and SIGKILL

_LOOK_AGAIN_S = 0.05  # ranks that run may tell of errors meanwhile


class Job:
    """Watch all ranks of a job and end them together. Not thread-safe."""

    # After the first failure the other ranks have the time that `time_of_end` gives them, then get
    # SIGTERM, and `TERMINATE_S` later SIGKILL. Ctrl-C, or the end of a terminal, is passed on at
    # once, followed by SIGTERM and SIGKILL; a second one kills at once. A scheduler's signal is
    # passed on once, and SIGKILL follows when the time is over that the plan gives to save.

    def __init__(
        self, plan: LaunchPlan, output: OutputRouter, hosts: Hosts, inbox: SignalInbox
    ) -> None:
        self.ends: list[RankEnd] = []
        self.interrupted_by: int | None = None
        self._host_names = {rank.rank: rank.host for rank in plan.ranks}
        self._output, self._hosts, self._inbox = output, hosts, inbox
        self._selector = hosts.selector
        self._agents: Sequence[Agent] = ()
        self._due_signals: list[tuple[float, int]] = []  # when to send which signal, in order
        # ranks that got a signal -> when first, and whether they were stopped
        self._signalled: dict[int, tuple[float, bool]] = {}
        self._is_ending = False
        self._look_s: float | None = None  # when to look whether a failed job is to be ended
        self._has_given_up = False
        self._grace_s = plan.grace_s
        self._asked_s: float | None = None  # when a scheduler has asked for the end
        self._places: dict[int, str] = {}  # where ranks are that have not joined
        hosts.selector.register(inbox, selectors.EVENT_READ, self._take_signals)

    def run(self, agents: Sequence[Agent]) -> None:
        """Start the ranks and return when all have ended; the caller closes the agents."""
        self._agents = agents
        for agent in agents:
            agent.start()
        while not self._has_ended:
            self._handle_next_events()

    @property
    def _has_ended(self) -> bool:
        return len(self.ends) == len(self._host_names)

    def on_output(self, rank: int, stream: Stream, data: bytes) -> None:
        """Pass on what a rank wrote."""
        self._output.take(rank, stream, data, time.monotonic())

    def on_exit(self, rank: int, exit_code: int, told: Entry, why_lost: str = "") -> None:
        """Record the end of a rank; the first failure starts the end of the job."""
        signalled_s, was_stopped = self._signalled.get(rank, (math.inf, False))
        is_late = told.failure is not None and told.failure.time_s >= signalled_s
        was_asked = self._asked_s is not None and rank not in self._signalled
        if was_asked and told.failure is not None and told.failure.cause_rank is not None:
            is_late = True  # it has lost a rank that had left before it
        end = RankEnd(
            rank,
            self._host_names[rank],
            self._pid_of(rank),
            exit_code,
            time.monotonic(),
            failure=None if is_late else told.failure,
            was_ended=rank in self._signalled,
            was_asked=was_asked,
            was_stopped=was_stopped,
            stdout=self._output.last_hidden_output(rank),
            stderr=self._output.last_errors(rank),
            why_lost=why_lost,
            position=told.position,
        )
        self.ends.append(end)
        self._output.finish_rank(rank, self._is_traceback_news(end), time.monotonic())
        LOGGER.debug("rank %d (pid %d) has ended: %s", rank, end.pid, exit_text(exit_code))
        if exit_code == 0 and not told.has_joined:
            for agent in self._agents:  # else others would wait for it for ever
                agent.note_end(rank, exit_code)
        if exit_code == LEFT and self._asked_s is None:
            self._give_time_to_leave(end.time_s)  # the signal came to the ranks, not to us
        elif end.has_failed and not self._is_ending:
            self._begin_to_end()
            self._look_s = end.time_s

    def _pid_of(self, rank: int) -> int:
        pids = (agent.pids().get(rank) for agent in self._agents)
        return next((pid for pid in pids if pid is not None), 0)

    def write_message(self, line: bytes) -> None:
        """Show a line of the launcher between the lines of the ranks."""
        self._output.write_message(line, time.monotonic())

    def drain(self) -> None:
        """Write the output that is still waiting; a signal to the launcher gives up."""
        for agent in self._agents:
            agent.set_reading(False)
        self._output.watch(self._selector, is_reading=False)
        self._output.release_lines()
        self._selector.unregister(self._inbox)
        self._selector.register(self._inbox, selectors.EVENT_READ, self._give_up_writing)
        end_s = None if self._asked_s is None else self._asked_s + self._grace_s
        while not self._has_given_up and self._output.is_pending:
            self._output.watch(self._selector, is_reading=False)
            left_s = None if end_s is None else end_s - time.monotonic()
            if left_s is not None and left_s <= 0:
                break
            for key, _ in self._selector.select(left_s):
                key.data()
        self._selector.unregister(self._inbox)

    def _give_up_writing(self) -> None:
        meant = ENDING if self._asked_s is None else set(ENDING).difference(ASKING)
        numbers = [number for number in self._inbox.take() if number in meant]
        if numbers:
            self._has_given_up = True
            self.interrupted_by = self.interrupted_by or numbers[0]

    def _is_traceback_news(self, end: RankEnd) -> bool:
        """Return whether to show a traceback held back; the report shows that of a failed rank."""
        if self.interrupted_by is not None:
            return end.rank == 0 and "KeyboardInterrupt" not in end.stderr
        return end.exit_code == 0

    def _handle_next_events(self) -> None:
        """Wait for the next events and deal with them."""
        now = time.monotonic()
        wake_ups = [self._hosts.tick(now)]  # first, since it may tell of ends
        if self._has_ended:
            return
        self._exchange_places()
        wake_ups.append(self._output.tick(now, lambda rank: rank in self._failures()))
        self.send_due_signals(now)
        wake_ups += [self._look_s, *(at for at, _ in self._due_signals[:1])]
        times = [at for at in wake_ups if at is not None]
        is_reading = not self._output.is_full
        for agent in self._agents:
            agent.set_reading(is_reading)
        self._output.watch(self._selector, is_reading=is_reading)
        timeout_s = max(min(times) - time.monotonic(), 0) if times else None
        for key, _ in self._selector.select(timeout_s):
            key.data()

    def _exchange_places(self) -> None:
        """Let the ranks of each host know where those of others are that have not joined."""
        if len(self._agents) == 1:
            return
        places = {rank: place for one in self._agents for rank, place in one.places().items()}
        if places != self._places:
            self._places = places
            for agent in self._agents:
                agent.note_places(places)

    def _take_signals(self) -> None:
        for number in self._inbox.take():
            if number in ENDING:
                self.interrupt(number)
            elif number == signal.SIGTSTP:
                self._stop()
        for agent in self._agents:
            agent.reap()

    def _stop(self) -> None:
        """Stop this process, as Ctrl-Z wants; the ranks go on."""
        self._hosts.announce_stop(True)
        os.kill(os.getpid(), signal.SIGSTOP)
        self._hosts.announce_stop(False)

    def on_request(self, number: int) -> None:
        """Begin to end the job since a scheduler has asked for it on another host."""
        self.interrupt(number)

    def interrupt(self, number: int) -> None:
        """Begin to end the job because the launcher got a signal; a second one kills."""
        now = time.monotonic()
        if number in ASKING and self.interrupted_by in (None, *ASKING):
            if self.interrupted_by is None:
                self._ask(number, now)
            return
        if self.interrupted_by is not None:
            if self.interrupted_by in ASKING:
                self.interrupted_by = number
            self._due_signals = [(now, signal.SIGKILL)]
            return
        self.interrupted_by = number
        self._look_s = None
        LOGGER.info("%s received, ending all ranks", signal.Signals(number).name)
        self._begin_to_end()
        gentle = signal.SIGINT if number == signal.SIGINT else signal.SIGTERM
        self._due_signals = [(now, gentle), (now + 2 * TERMINATE_S, signal.SIGKILL)]
        if gentle == signal.SIGINT:
            self._due_signals.insert(1, (now + TERMINATE_S, signal.SIGTERM))

    def _ask(self, number: int, now: float) -> None:
        """Let the ranks save and leave since a scheduler wants the end of the job."""
        self.interrupted_by = number
        LOGGER.info(
            "asked to end by %s: the ranks have %g s to save and to leave",
            signal.Signals(number).name,
            self._grace_s,
        )
        for agent in self._agents:
            agent.reap()
        # It may have signalled the ranks as well, and some have ended before we were told.
        self.ends = [
            replace(end, was_asked=True) if -end.exit_code in ASKING else end for end in self.ends
        ]
        if self._asked_s is None:
            self._give_time_to_leave(now)
        for agent in self._agents:
            agent.ask(number)

    def _give_time_to_leave(self, now: float) -> None:
        self._is_ending = True
        self._asked_s, self._look_s = now, None
        self._due_signals = [(now + self._grace_s, signal.SIGKILL)]

    def _begin_to_end(self) -> None:
        self._is_ending = True
        self._output.hide_other_ranks(time.monotonic())

    def send_due_signals(self, now: float) -> None:
        """Send the ranks the signals whose time has come."""
        if self._look_s is not None and self._look_s <= now:
            self._look_at_survivors(now)
        while self._due_signals and self._due_signals[0][0] <= now:
            _, number = self._due_signals.pop(0)
            for agent in self._agents:
                agent.reap()  # a rank that ended by itself must not count as ended by us
                for rank, is_stopped in agent.running().items():
                    since_s, was_stopped = self._signalled.get(rank, (now, False))
                    self._signalled[rank] = since_s, was_stopped or is_stopped
                agent.send_signal(number)
                # A stopped process acts on a signal only when it is continued.
                agent.send_signal(signal.SIGCONT)

    def _failures(self) -> dict[int, Failure]:
        """Return what ranks that run have told."""
        told = (one for agent in self._agents for one in agent.failed().items())
        return {rank: entry.failure for rank, entry in told if entry.failure is not None}

    def _look_at_survivors(self, now: float) -> None:
        """End a failed job, or choose when to look again."""
        running = [rank for agent in self._agents for rank in agent.running()]
        told = self._failures()
        end_s = time_of_end(self.ends, {rank: told.get(rank) for rank in running})
        if end_s > now:
            self._look_s = min(end_s, now + _LOOK_AGAIN_S)
            return
        self._look_s = None
        self._due_signals = [(now, signal.SIGTERM), (now + TERMINATE_S, signal.SIGKILL)]
