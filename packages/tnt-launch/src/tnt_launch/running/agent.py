"""Start the ranks of one host, read what they write, notice how they end, send them signals."""

from __future__ import annotations

import contextlib
import ctypes
import os
import selectors
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Protocol

from tnt_launch.errors import LaunchError
from tnt_launch.log import LOGGER
from tnt_launch.numbers import format_ranges
from tnt_launch.output.files import Stream
from tnt_launch.planning.allocation import SCHEDULER_JOB, scheduler_job_of
from tnt_launch.planning.plan import HostPlan, LaunchPlan, RankPlan
from tnt_launch.running.board import Board, Entry, Failure
from tnt_launch.running.ending import exit_text
from tnt_launch.running.job_files import (
    files_written,
    note_end_of_rank,
    remove_end_notes,
    remove_files_of_job,
)
from tnt_launch.running.orphans import Orphans, Watchdog
from tnt_launch.running.processes import advice_for, limits_told, state_of

PR_SET_PDEATHSIG = 1
READ_SIZE = 1 << 16
LAST_READS = 64  # bounds what is read of a rank that has ended while its children still write


# What these protocols do by themselves is right where there is nothing to do.


class Listener(Protocol):
    """Receiver of what happens to the ranks."""

    def on_output(self, rank: int, stream: Stream, data: bytes) -> None:
        """Take bytes that `rank` wrote."""

    def on_exit(self, rank: int, exit_code: int, told: Entry, why_lost: str = "") -> None:
        """Take note that `rank` ended, negative for a signal; all its output came before."""
        # `why_lost` says why nothing can be known of it any more.

    def on_request(self, number: int) -> None:
        """Take note that a scheduler has asked for the end on another host, by a signal."""
        return


class Agent(Protocol):
    """The ranks of one host. All calls return at once."""

    # An agent for a host far away sends the calls to a `LocalAgent` there.

    def start(self) -> None:
        """Start all ranks."""

    def reap(self) -> None:
        """Look for ranks that have ended; called after each SIGCHLD."""
        return

    def send_signal(self, number: int) -> None:
        """Send a signal to every rank that runs, and to all that they started."""

    def ask(self, number: int) -> None:
        """Send a signal of a scheduler to every rank that runs, but not to what they started."""

    def note_end(self, rank: int, exit_code: int) -> None:
        """Let the ranks know that one of another host has ended before it has joined them."""
        return

    def places(self) -> dict[int, str]:
        """Return where ranks are in the user's script that have not joined the others."""
        return {}

    def note_places(self, places: Mapping[int, str]) -> None:
        """Let the ranks know where ranks of other hosts are."""

    def set_reading(self, is_reading: bool) -> None:
        """Stop or go on reading what the ranks write."""

    def running(self) -> dict[int, bool]:
        """Return the ranks that have not ended, each with whether it is stopped as by SIGSTOP."""

    def failed(self) -> dict[int, Entry]:
        """Return what ranks have reported that have not ended, but failed."""
        return {}

    def pids(self) -> dict[int, int]:
        """Return the process ids of all ranks that were started."""

    def end(self) -> None:
        """Kill whatever is left; only the end of that may be awaited later."""

    def close(self) -> None:
        """Release everything, after `end`."""
        return


class Hosts(Protocol):
    """Where the ranks of a job run."""

    selector: selectors.BaseSelector  # data of its keys are functions to call

    def agents(self, plan: LaunchPlan, listener: Listener, is_rank_0_direct: bool) -> list[Agent]:
        """Return the agents of the hosts of `plan`, which have not started anything yet."""
        # If it runs on this host, a direct rank 0 writes to this process's stdout itself.

    def tick(self, now: float) -> float | None:
        """Do what is due, and return when to call again, on the clock of `time.monotonic`."""
        return None

    def announce_stop(self, is_stopped: bool) -> None:
        """Tell other hosts that this process is about to be stopped, or goes on."""
        return

    def wait_for_end(self) -> None:
        """Wait until other hosts have ended what their agents were told to end."""
        return


def end_together(agents: Sequence[Agent], hosts: Hosts) -> None:
    """Kill whatever is left on all hosts, wait for that, and release everything."""
    for agent in agents:
        agent.end()
    hosts.wait_for_end()
    for agent in agents:
        agent.close()


class ThisHost(Hosts):
    """All ranks run on the host of this process; see `Hosts`."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self.selector = selector

    def agents(self, plan: LaunchPlan, listener: Listener, is_rank_0_direct: bool) -> list[Agent]:
        """Return one agent for each entry of the plan; see `Hosts`."""
        return [
            LocalAgent(host, self.selector, listener, is_rank_0_direct, plan.job_id, plan.script)
            for host in plan.hosts
        ]


@dataclass
class _Process:
    plan: RankPlan
    popen: subprocess.Popen[bytes]
    streams: dict[Stream, IO[bytes]]
    has_ended: bool = False


class LocalAgent:
    """The ranks of the host on which this process runs; see `Agent`. Not thread-safe."""

    # Every rank leads a session and process group of its own. It stays a zombie until its group has
    # been killed, so that its number cannot come to mean somebody else's processes.

    def __init__(
        self,
        plan: HostPlan,
        selector: selectors.BaseSelector,
        listener: Listener,
        is_rank_0_direct: bool,
        job_id: str,
        script: str,
    ) -> None:
        """Prepare to start the ranks of `plan`. Call it while this process has one thread."""
        self._plan, self._selector, self._listener = plan, selector, listener
        self._is_rank_0_direct, self._job_id = is_rank_0_direct, job_id
        self._processes: list[_Process] = []
        with limits_told(), contextlib.ExitStack() as stack:
            files = stack.enter_context(files_written(plan, job_id, script))
            self._watchdog = Watchdog(job_id, files)
            stack.callback(self._watchdog.close)
            self._resources = stack.pop_all()
        self._orphans = Orphans(lambda: self.pids().values())
        self._is_reading = True
        self._board = Board(len(plan.ranks))
        self._absent = set(range(len(plan.ranks)))  # local ranks that have not joined yet

    def start(self) -> None:
        """Start all ranks; those already started stay if the operating system refuses one."""
        set_up = _child_setup()
        for rank in self._plan.ranks:
            self._processes.append(self._spawn(rank, set_up))

    def reap(self) -> None:
        """Look for ranks that have ended and tell the listener, after their last output."""
        for local_rank, process in enumerate(self._processes):
            if not process.has_ended:
                exit_code = _exit_code_without_reaping(process.popen.pid)
                if exit_code is not None:
                    process.has_ended = True
                    told = self._board.read(local_rank)
                    self._write_note(process.plan.rank, exit_code, told.failure)
                    self._read_the_rest(process)
                    self._listener.on_exit(process.plan.rank, exit_code, told)
        self._orphans.reap()

    def send_signal(self, number: int) -> None:
        """Send a signal to all that ranks have started, also to what ended ranks left behind."""
        if number != signal.SIGCONT:
            self._board.note_ending()
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.popen.pid, number)
        self._orphans.send_signal(number)

    def ask(self, number: int) -> None:
        """Send a signal to the ranks alone: what they have started, they may need to save."""
        for process in self._processes:
            if not process.has_ended:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(process.popen.pid, number)
                    os.kill(process.popen.pid, signal.SIGCONT)  # a stopped one would not act on it

    def set_reading(self, is_reading: bool) -> None:
        """Stop or go on reading what the ranks write; a full pipe then makes them wait."""
        if is_reading == self._is_reading:
            return
        self._is_reading = is_reading
        for process in self._processes:
            for stream in process.streams:
                (self._watch if is_reading else self._unwatch)(process, stream)

    def running(self) -> dict[int, bool]:
        """Return the ranks that have not ended, and whether each is stopped (SIGSTOP)."""
        return {
            process.plan.rank: state_of(process.popen.pid) == "T"
            for process in self._processes
            if not process.has_ended
        }

    def failed(self) -> dict[int, Entry]:
        """Return what ranks have reported that have not ended, but failed."""
        running = [one for one in enumerate(self._processes) if not one[1].has_ended]
        told = {one.plan.rank: self._board.read(local_rank) for local_rank, one in running}
        return {rank: entry for rank, entry in told.items() if entry.failure is not None}

    def places(self) -> dict[int, str]:
        """Return where ranks are in the user's script that have not joined the others."""
        told = {local_rank: self._board.read(local_rank) for local_rank in self._absent}
        # Asked for with each event: ranks that have joined are not looked at again.
        self._absent -= {local_rank for local_rank, one in told.items() if one.has_joined}
        absent = [(self._plan.ranks[each].rank, told[each].place) for each in sorted(self._absent)]
        return {rank: place for rank, place in absent if place}

    def note_places(self, places: Mapping[int, str]) -> None:
        """Let the ranks know where ranks of other hosts are."""
        self._board.note_places(places)

    def pids(self) -> dict[int, int]:
        """Return the process ids of all ranks that were started."""
        return {process.plan.rank: process.popen.pid for process in self._processes}

    def end(self) -> None:
        """Kill all ranks and whatever they or ended ranks left behind."""
        self.send_signal(signal.SIGKILL)

    def close(self) -> None:
        """Wait for all ranks, after `end`, and remove what they left behind."""
        self._orphans.close()
        self._board.close()
        for process in self._processes:
            self._watchdog.remove(process.popen.pid)
            process.popen.wait()
            process.has_ended = True
            self._read_the_rest(process)
            for stream in list(process.streams):
                self._close_stream(process, stream)
        remove_end_notes(self._job_id)
        for path in remove_files_of_job(self._job_id):
            LOGGER.info("removed shared memory that was left behind: %s", path)
        self._resources.close()

    def note_end(self, rank: int, exit_code: int) -> None:
        """Let the ranks know that one of another host has ended before it has joined them."""
        if rank not in self.pids():
            self._write_note(rank, exit_code, None)

    def _write_note(self, rank: int, exit_code: int, failure: Failure | None) -> None:
        how = [exit_text(exit_code), "" if failure is None or exit_code == 0 else failure.exception]
        try:
            note_end_of_rank(self._job_id, rank, ": ".join(filter(None, how)))
        except OSError as error:
            LOGGER.warning(
                "other ranks cannot be told that rank %d has ended: %s. They may wait until their "
                "timeout. [end-not-told]",
                rank,
                error,
            )

    def _spawn(self, rank: RankPlan, set_up: Callable[[RankPlan], None]) -> _Process:
        is_first = rank.rank == 0
        try:
            popen = subprocess.Popen(
                rank.argv,
                cwd=self._plan.working_directory,
                env={**os.environ, SCHEDULER_JOB: scheduler_job_of(os.environ), **rank.environment},
                stdin=None if is_first else subprocess.DEVNULL,
                stdout=None if is_first and self._is_rank_0_direct else subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
                pass_fds=self._board.descriptors,
                preexec_fn=lambda: set_up(rank),  # safe: the launcher has one thread only
            )
        except (OSError, subprocess.SubprocessError) as error:
            advice = advice_for(error) or _advice(rank)
            raise LaunchError(
                f"rank {rank.rank} cannot be started on {rank.host}: {error}. {advice}"
            ) from error
        self._watchdog.add(popen.pid)
        streams: dict[Stream, IO[bytes]] = {}
        if popen.stdout is not None:
            streams["stdout"] = popen.stdout
        if popen.stderr is not None:
            streams["stderr"] = popen.stderr
        process = _Process(rank, popen, streams)
        for stream, pipe in streams.items():
            os.set_blocking(pipe.fileno(), False)
            self._watch(process, stream)
        return process

    def _watch(self, process: _Process, stream: Stream) -> None:
        def read() -> None:
            self._read(process, stream)

        self._selector.register(process.streams[stream], selectors.EVENT_READ, read)

    def _unwatch(self, process: _Process, stream: Stream) -> None:
        with contextlib.suppress(KeyError):
            self._selector.unregister(process.streams[stream])

    def _read(self, process: _Process, stream: Stream) -> bool:
        """Read once and return whether there may be more at once."""
        if stream not in process.streams:
            return False
        try:
            data = os.read(process.streams[stream].fileno(), READ_SIZE)
        except BlockingIOError:
            return False
        if data:
            self._listener.on_output(process.plan.rank, stream, data)
        else:
            self._close_stream(process, stream)
        return bool(data)

    def _read_the_rest(self, process: _Process) -> None:
        for stream in list(process.streams):
            for _ in range(LAST_READS):
                if not self._read(process, stream):
                    break

    def _close_stream(self, process: _Process, stream: Stream) -> None:
        self._unwatch(process, stream)
        process.streams.pop(stream).close()


def _advice(rank: RankPlan) -> str:
    online = f", and that its CPUs {format_ranges(rank.cpus)} are online" if rank.cpus else ""
    return f"Check that {rank.argv[0]!r} can be executed{online}."


def _child_setup() -> Callable[[RankPlan], None]:
    """Return what a new process does first: be killed with the launcher, keep to its CPUs."""
    prctl = ctypes.CDLL(None).prctl  # looked up here, since the new process should do little
    launcher = os.getpid()

    def set_up(rank: RankPlan) -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != launcher:
            os._exit(1)
        if rank.cpus:
            os.sched_setaffinity(0, rank.cpus)

    return set_up


def _exit_code_without_reaping(pid: int) -> int | None:
    result = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if result is None:
        return None
    return result.si_status if result.si_code == os.CLD_EXITED else -result.si_status
