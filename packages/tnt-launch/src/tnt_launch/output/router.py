"""Decide what of the output of every rank is shown, with which label, or kept for the report."""

from __future__ import annotations

import contextlib
import functools
import os
import selectors
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tnt_launch.numbers import format_ranges
from tnt_launch.output.files import STREAMS, OutputFiles, Stream
from tnt_launch.output.sink import LineMixer, Sink, is_same_file
from tnt_launch.output.stream import LineSplitter, Tail, TensorFlowLogFilter, TracebackHold
from tnt_launch.output.terminal import TerminalCopy, open_terminal
from tnt_launch.planning.plan import LaunchPlan

WINDOW_S = 0.2
MAX_PENDING = 10_000  # lines that may wait; with more, the oldest do not wait any longer


@dataclass(frozen=True)
class SharedLine:
    """A line, and the ranks that have written it, ascending."""

    ranks: tuple[int, ...]
    line: bytes


class SameLines:
    """Hold lines for a moment, to find those that others write too."""

    # A line is given out when all ranks have written it, or when it has waited for `WINDOW_S`;
    # those of one rank in their order. The cost of a line does not depend on the number of ranks.

    def __init__(self, ranks: Collection[int]) -> None:
        self._expected = set(ranks)
        self._waiting: dict[int, deque[bytes]] = {}
        self._heads: dict[bytes, set[int]] = {}  # next lines, and whose they are
        self._arrivals: deque[tuple[float, int, int]] = deque()  # time, rank, number of the line
        self._num_arrived: dict[int, int] = {}
        self._num_given: dict[int, int] = {}

    def put(self, rank: int, line: bytes, now: float) -> list[SharedLine]:
        """Add a line and return those that wait no longer."""
        number = self._num_arrived.get(rank, 0)
        self._num_arrived[rank] = number + 1
        self._arrivals.append((now, rank, number))
        waiting = self._waiting.setdefault(rank, deque())
        waiting.append(line)
        if len(waiting) == 1:
            self._heads.setdefault(line, set()).add(rank)
        return [*self._complete(line), *self._late(now)]

    def forget(self, rank: int) -> list[SharedLine]:
        """Expect no more lines of a rank; return those that wait no longer."""
        self._expected.discard(rank)
        return [shared for line in list(self._heads) for shared in self._complete(line)]

    def tick(self, now: float) -> tuple[list[SharedLine], float | None]:
        """Return the lines that have waited long enough, and when to call again."""
        late = list(self._late(now))
        return late, self._arrivals[0][0] + WINDOW_S if self._arrivals else None

    def release(self) -> list[SharedLine]:
        """Return all that wait."""
        return list(self._late(float("inf")))

    def _late(self, now: float) -> Iterator[SharedLine]:
        while self._arrivals:
            time_s, rank, number = self._arrivals[0]
            is_given = number < self._num_given.get(rank, 0)
            is_late = time_s + WINDOW_S <= now or len(self._arrivals) > MAX_PENDING
            if not is_given and not is_late:
                return
            self._arrivals.popleft()
            if not is_given:
                yield self._give(self._waiting[rank][0])

    def _complete(self, line: bytes) -> Iterator[SharedLine]:
        """Give out a line, and what follows it, that nobody else is expected to write."""
        while len(self._heads.get(line, ())) >= max(len(self._expected), 1):
            shared = self._give(line)
            yield shared
            following = self._waiting[shared.ranks[0]]
            if not following:
                return
            line = following[0]

    def _give(self, line: bytes) -> SharedLine:
        ranks = tuple(sorted(self._heads.pop(line)))
        for rank in ranks:
            waiting = self._waiting[rank]
            waiting.popleft()
            self._num_given[rank] = self._num_given.get(rank, 0) + 1
            if waiting:
                self._heads.setdefault(waiting[0], set()).add(rank)
        return SharedLine(ranks, line)


_COLOURS = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)  # all but red, black and white
LISTED = 3  # ranks that are listed one by one; more are written as ranges
HIGH_WATER = 1 << 20  # pending bytes from which the ranks' output is no longer read

STDOUT, STDERR = 1, 2


class Labels:
    """Labels of the ranks of a job."""

    def __init__(self, hosts: Mapping[int, str], *, is_coloured: bool = False) -> None:
        self._hosts = hosts if len(set(hosts.values())) > 1 else {}
        self._is_coloured = is_coloured

    def of(self, ranks: Sequence[int]) -> bytes:
        """Return the label, with a blank, of lines that ranks have written, ascending. Pure."""
        hosts = {self._hosts[rank] for rank in ranks if rank in self._hosts}
        numbers = ",".join(map(str, ranks)) if len(ranks) <= LISTED else format_ranges(ranks)
        # Ranks of several hosts are told by their numbers alone.
        label = f"[{numbers}{'@' + hosts.pop() if len(hosts) == 1 else ''}]"
        if self._is_coloured and len(ranks) == 1:
            label = f"\x1b[{_COLOURS[ranks[0] % len(_COLOURS)]}m{label}\x1b[0m"
        return f"{label} ".encode()


def is_coloured(fd: int, environment: Mapping[str, str]) -> bool:
    """Return whether to write colours to a descriptor: a terminal whose user has not refused."""
    has_colours = environment.get("TERM", "dumb") != "dumb" and not environment.get("NO_COLOR")
    return has_colours and os.isatty(fd)


class OutputRouter:
    """Take the bytes of all ranks and show the right ones. Not thread-safe."""

    # stdout of rank 0 passes unchanged; that of the others is shown by lines, each with its rank,
    # or only kept. stderr of rank 0 passes, that of the others is shown by lines, equal ones of
    # several ranks once. The last lines of everything that comes through here are kept for the
    # report, and all of it goes to the files, if there are any.

    def __init__(
        self,
        shows_all_output: bool,
        tensorflow_log_level: int = 0,  # lines that TensorFlow logs below it are removed
        hosts: Mapping[int, str] | None = None,
        files: OutputFiles | None = None,
        terminal: TerminalCopy | None = None,  # if stdout is a copy of it
        has_gpus: bool = True,  # without, TensorFlow's error about that is removed
    ) -> None:
        self._has_gpus = has_gpus
        self._tensorflow_log_level = tensorflow_log_level
        self._shows_all = shows_all_output
        self._files = files
        hosts = hosts or {}
        self._terminal = terminal
        stdout = STDOUT if terminal is None else terminal.terminal
        shares_sink = is_same_file(stdout, STDERR)
        err = Sink(STDERR)
        self._err = LineMixer(err)
        self._out = self._err if shares_sink else LineMixer(Sink(stdout))
        self._labels = {
            mixer: Labels(hosts, is_coloured=is_coloured(mixer.sink.fd, os.environ))
            for mixer in (self._out, self._err)
        }
        self._same = SameLines([rank for rank in hosts if rank != 0])
        self._last_shared: tuple[int, ...] = ()
        self._sinks = (err,) if shares_sink else (self._out.sink, err)
        self._watched: set[Sink | TerminalCopy] = set()
        # Rank 0 writes to our stdout itself where that cannot cut lines: the terminal, for whose
        # sake a program may change its output, and any file that nobody else writes to.
        # Its output must come through here for a file of its own.
        is_alone = not (shows_all_output or shares_sink or files is not None)
        self.is_rank_0_direct = os.isatty(STDOUT) or is_alone
        self._tails: dict[tuple[int, Stream], Tail] = {}
        self._splitters: dict[tuple[int, Stream], LineSplitter] = {}
        self._log_filters: dict[int, TensorFlowLogFilter] = {}
        self._holds: dict[int, TracebackHold] = {}
        self._hides_other_ranks = False

    @property
    def is_full(self) -> bool:
        """Whether reading more output should wait until some has been written."""
        return sum(sink.num_pending for sink in self._sinks) > HIGH_WATER

    @property
    def is_pending(self) -> bool:
        """Whether something is still to be written."""
        return any(sink.num_pending for sink in self._sinks)

    def watch(self, selector: selectors.BaseSelector, *, is_reading: bool) -> None:
        """Have output written when it can be, and the terminal's copy read if that is wanted."""
        for sink in self._sinks:
            self._watch(selector, sink, sink.fd, selectors.EVENT_WRITE, sink.num_pending > 0)
        if self._terminal is not None:
            fd = self._terminal.fileno()
            self._watch(selector, self._terminal, fd, selectors.EVENT_READ, is_reading)

    def _watch(
        self,
        selector: selectors.BaseSelector,
        one: Sink | TerminalCopy,
        fd: int,
        event: int,
        is_wanted: bool,
    ) -> None:
        if is_wanted == (one in self._watched):
            return
        if is_wanted:
            selector.register(fd, event, one.advance)
            self._watched.add(one)
        else:
            selector.unregister(fd)
            self._watched.discard(one)

    def take(self, rank: int, stream: Stream, data: bytes, now: float) -> None:
        """Take bytes that a rank wrote."""
        if self._files is not None:
            self._files.write(rank, stream, data)
        if stream == "stderr":
            new = TensorFlowLogFilter(self._tensorflow_log_level, self._has_gpus)
            data = self._log_filters.setdefault(rank, new).feed(data)
        self._take_filtered(rank, stream, data, now)

    def _take_filtered(self, rank: int, stream: Stream, data: bytes, now: float) -> None:
        if not data:
            return
        self._tails.setdefault((rank, stream), Tail()).feed(data)
        if stream == "stderr":
            hold = self._holds.setdefault(rank, TracebackHold())
            self._show(rank, stream, hold.feed(data, now), now)
        else:
            self._show(rank, stream, data, now)

    def finish_rank(self, rank: int, is_traceback_shown: bool, now: float) -> None:
        """Deal with what is left of a rank that has ended."""
        # A traceback held back is not shown if it is the reason of the end: the report has it.
        log_filter = self._log_filters.pop(rank, None)
        if log_filter is not None:
            self._take_filtered(rank, "stderr", log_filter.finish(), now)
        hold = self._holds.pop(rank, None)
        if hold is not None and is_traceback_shown:
            self._show(rank, "stderr", hold.release(), now)
        for stream in STREAMS:
            splitter = self._splitters.pop((rank, stream), None)
            if splitter is not None:
                self._put_lines(rank, stream, splitter.finish(), now)
        self._put_shared(self._same.forget(rank), now)

    def hide_other_ranks(self, now: float) -> None:
        """Hide stderr of ranks other than 0, and hold tracebacks back: the job is ending."""
        self._put_shared(self._same.release(), now)
        self._hides_other_ranks = True

    def tick(self, now: float, has_failed: Callable[[int], bool]) -> float | None:
        """Show what was held back long enough and return when to call again."""
        times = []
        # In a job that is ending, tracebacks wait for the end of their ranks however long it takes.
        for rank, hold in self._holds.items() if not self._hides_other_ranks else ():
            data, time = hold.tick(now, functools.partial(has_failed, rank))
            self._show(rank, "stderr", data, now)
            times.append(time)
        shared, time = self._same.tick(now)
        self._put_shared(shared, now)
        times.append(time)
        times += [mixer.tick(now) for mixer in {self._out, self._err}]
        return min((time for time in times if time is not None), default=None)

    def write_message(self, line: bytes, now: float) -> None:
        """Show a whole line of the launcher's own on stderr."""
        self._err.put_line(line, now)

    def last_errors(self, rank: int) -> str:
        """Return the last lines of a rank's stderr."""
        return self._tail(rank, "stderr")

    def last_hidden_output(self, rank: int) -> str:
        """Return the last lines of a rank's stdout, unless they have been shown."""
        return "" if rank == 0 or self._shows_all else self._tail(rank, "stdout")

    def release_lines(self) -> None:
        """Let nothing wait for the end of a line: all ranks have ended, and nothing is read."""
        if self._terminal is not None:
            self._terminal.finish()
        self._put_shared(self._same.release(), 0.0)
        for mixer in (self._out, self._err):
            mixer.break_line()

    def _tail(self, rank: int, stream: Stream) -> str:
        tail = self._tails.get((rank, stream))
        return tail.text() if tail is not None else ""

    def _show(self, rank: int, stream: Stream, data: bytes, now: float) -> None:
        if not data:
            return
        if rank == 0:
            (self._out if stream == "stdout" else self._err).pass_through(data)
        elif self._is_visible(stream):
            splitter = self._splitters.setdefault((rank, stream), LineSplitter())
            self._put_lines(rank, stream, splitter.feed(data), now)

    def _put_lines(self, rank: int, stream: Stream, lines: list[bytes], now: float) -> None:
        if not lines or not self._is_visible(stream):
            return
        if stream == "stdout":
            label = self._labels[self._out].of([rank])
            self._out.put_line(b"".join(label + line for line in lines), now)
            return
        for line in lines:
            self._put_shared(self._same.put(rank, line, now), now)

    def _put_shared(self, lines: list[SharedLine], now: float) -> None:
        for shared in lines:
            text = shared.line
            if len(shared.ranks) > LISTED and shared.ranks != self._last_shared:
                # Once for the lines of a traceback.
                text = b"%s (%d ranks)\n" % (text.rstrip(b"\n"), len(shared.ranks))
            self._last_shared = shared.ranks
            self._err.put_line(self._labels[self._err].of(shared.ranks) + text, now)

    def _is_visible(self, stream: Stream) -> bool:
        return self._shows_all if stream == "stdout" else not self._hides_other_ranks


@contextlib.contextmanager
def routed_output(plan: LaunchPlan) -> Iterator[OutputRouter]:
    """Open what the output of the ranks goes to, for as long as the job runs."""
    hosts = {rank.rank: rank.host for rank in plan.ranks}
    with contextlib.ExitStack() as stack:
        files, terminal = None, None
        if plan.output_dir:
            files = stack.enter_context(
                OutputFiles(plan.output_dir, list(hosts), plan.keeps_output)
            )
            terminal = stack.enter_context(open_terminal()) if os.isatty(STDOUT) else None
        level, has_gpus = plan.tensorflow_log_level, plan.gpus_per_node > 0
        router = OutputRouter(plan.shows_all_output, level, hosts, files, terminal, has_gpus)
        if terminal is not None:
            terminal.take = lambda data: router.take(0, "stdout", data, time.monotonic())
        yield router
