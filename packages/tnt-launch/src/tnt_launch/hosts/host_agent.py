"""The process on another host that starts its ranks there and does what the launcher says."""

# The launcher starts it through ssh; its stdin and stdout are their channel. It ends, and its ranks
# with it, when the channel ends. Frames that are for hosts below it in the tree it hands on.

from __future__ import annotations

import os
import selectors
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from tnt_launch.errors import LaunchError
from tnt_launch.hosts.channel import Channel, Frame
from tnt_launch.hosts.children import Children
from tnt_launch.hosts.remote_agent import LOST
from tnt_launch.log import HANDLER, configure_logging, write_to_stderr
from tnt_launch.output.files import Stream
from tnt_launch.planning.host_facts import inspect_addresses, inspect_host, own_version
from tnt_launch.planning.plan_text import host_plan_from_json
from tnt_launch.planning.settings import Settings
from tnt_launch.planning.spec import LaunchSpec, check_program
from tnt_launch.planning.variables import GPUS_PER_NODE
from tnt_launch.running.agent import Listener, LocalAgent
from tnt_launch.running.board import Entry, to_fields
from tnt_launch.running.signals import ASKING, ENDING, SignalInbox


class HostAgent(Listener):
    """What runs on a host for a launcher elsewhere. Not thread-safe."""

    def __init__(
        self,
        selector: selectors.BaseSelector,
        inbox: SignalInbox,
        own: JoiningHost | None = None,  # said by the user on this host, not by the launcher
    ) -> None:
        self.exit_code = LOST  # of the job, once the launcher has told it
        self.why = ""  # it has ended, if not well
        self._selector = selector
        self._inbox = inbox
        self._own = own
        self._node: int | None = None
        self._is_over = False
        self._local: LocalAgent | None = None
        self._failed: set[int] = set()  # ranks that run, and have told of an error
        self._places: dict[int, str] = {}  # of ranks that have not joined
        self._may_read = True
        self._children = Children(selector, self._send_up, self._on_lost_below, sys.executable)
        self._parent: Channel | None = None
        selector.register(inbox, selectors.EVENT_READ, self._take_signals)

    def serve(self, read_fd: int, write_fd: int) -> None:
        """Do what comes through two descriptors until the launcher ends it, or is gone."""
        self._parent = Channel(self._selector, read_fd, write_fd, self._take, self._stop)
        self._greet(self._parent)
        HANDLER.write_line = lambda line: self._tell("message", line)
        try:
            while not self._is_over:
                self._wait()
        finally:
            HANDLER.write_line = write_to_stderr
            self._end_ranks()
            self._parent.close()
            self._children.close()

    def _greet(self, parent: Channel) -> None:
        """Begin with a launcher that this process trusts, since it was started by it."""

    def on_output(self, rank: int, stream: Stream, data: bytes) -> None:
        """Send on what a rank wrote."""
        self._tell("output", data, rank=rank, stream=stream)

    def on_exit(self, rank: int, exit_code: int, told: Entry, why_lost: str = "") -> None:
        """Tell that a rank has ended."""
        fields = to_fields(told, time.monotonic())
        self._tell("exit", rank=rank, exit_code=exit_code, told=fields)

    def _wait(self) -> None:
        assert self._parent is not None
        now = time.monotonic()
        times = [self._parent.tick(now), self._children.tick(now)]
        self._children.set_reading(not self._parent.is_full)
        if self._local is not None:
            self._local.set_reading(self._may_read and not self._parent.is_full)
        due = min((at for at in times if at is not None), default=now)
        for key, _ in self._selector.select(max(due - time.monotonic(), 0)):
            key.data()
        self._tell_failures()
        self._tell_places()

    def _tell_failures(self) -> None:
        for rank, entry in self._local.failed().items() if self._local is not None else ():
            if rank not in self._failed:
                self._failed.add(rank)
                self._tell("failure", rank=rank, told=to_fields(entry, time.monotonic()))

    def _tell_places(self) -> None:
        places = self._local.places() if self._local is not None else {}
        if places != self._places:
            self._places = places
            self._tell("places", places=list(places.items()))

    def _take(self, frame: Frame) -> None:
        if self._node is None:  # the first frame greets this host
            self._node = frame.node
        if frame.node != self._node:
            self._children.send(frame)
            return
        getattr(self, f"_do_{frame.kind}")(**frame.fields)

    def _do_hello(self, **fields: Any) -> None:
        assert self._parent is not None
        self._parent.announce_stop(True)  # a look at GPUs may take its time
        try:
            report = _prepare(own=self._own, **fields)
        except (LaunchError, OSError) as error:
            self._tell("refused", why=str(error))
        else:
            self._tell("report", report=report, version=own_version())
        self._parent.announce_stop(False)

    def _do_connect(self, hosts: list[list[Any]], ssh: list[str], command: str) -> None:
        for node, name in hosts:
            self._children.start(node, [*ssh, name, command])

    def _do_start(self, plan: Mapping[str, Any], job_id: str, script: str) -> None:
        try:
            host_plan = host_plan_from_json(plan)
            self._local = LocalAgent(host_plan, self._selector, self, False, job_id, script)
            self._local.start()
        except (LaunchError, OSError) as error:
            self._tell("failed", why=str(error))
        else:
            self._tell("started", pids=list(self._local.pids().items()))

    def _do_clock(self, asked_at: float) -> None:
        self._tell("clock", asked_at=asked_at, time=time.time())

    def _do_signal(self, number: int) -> None:
        if self._local is not None:
            self._local.reap()
            self._tell("states", running=list(self._local.running().items()))
            self._local.send_signal(number)

    def _do_ask(self, number: int) -> None:
        if self._local is not None:
            self._local.ask(number)

    def _do_note_end(self, rank: int, exit_code: int) -> None:
        if self._local is not None:
            self._local.note_end(rank, exit_code)

    def _do_note_places(self, places: list[list[Any]]) -> None:
        if self._local is not None:
            self._local.note_places({int(rank): str(place) for rank, place in places})

    def _do_read(self, is_reading: bool) -> None:
        self._may_read = is_reading

    def _do_end(self) -> None:
        self._end_ranks()
        self._tell("ended")

    def _do_leave(self, exit_code: int, why: str) -> None:
        self.exit_code = exit_code
        self._stop(why)

    def _end_ranks(self) -> None:
        if self._local is not None:
            self._local.end()
            self._local.close()
            self._local = None

    def _take_signals(self) -> None:
        numbers = [number for number in self._inbox.take() if number in ENDING]
        if self._local is not None:
            # A scheduler signals all hosts, and the launcher sees to it that the job ends in order.
            for number in [one for one in numbers if one in ASKING]:
                self._tell("asked", number=number)
                numbers.remove(number)
        if numbers:
            why = f"its launcher has received {signal.Signals(numbers[0]).name}"
            self._tell("lost", why=why)
            self.exit_code = 128 + numbers[0]
            self._stop(why)
        if self._local is not None:
            self._local.reap()

    def _stop(self, why: str) -> None:
        self._is_over = True
        self.why = why

    def _tell(self, kind: str, body: bytes = b"", **fields: Any) -> None:
        self._send_up(Frame(kind, self._node or 0, fields, body))

    def _send_up(self, frame: Frame) -> None:
        assert self._parent is not None
        self._parent.send(frame)

    def _on_lost_below(self, node: int, why: str) -> None:
        self._send_up(Frame("lost", node, {"why": why}))


@dataclass(frozen=True)
class JoiningHost:
    """What an agent that has come by itself knows better than the launcher."""

    interpreter: tuple[str, ...] | None  # what runs the script here, if not what the launcher uses
    reached_at: str  # the address of this host on the connection to the other one
    reached_from: str  # the address of the other one


def _prepare(
    own: JoiningHost | None,
    environment: Mapping[str, str],
    defaults: Mapping[str, str],  # variables that hold where the host has none of its own
    working_directory: str | None,
    program: list[str],
    interpreter: list[str] | None,
    exports: Mapping[str, str],
    num_gpus: int | None,
    allow_gpus: bool,
    log_level: str,
) -> dict[str, Any]:
    """Make this process like the launcher's, and check that the ranks can run here."""
    os.environ.update({**defaults, **os.environ, **environment})
    if working_directory is not None:
        try:
            os.chdir(working_directory)
        except OSError as error:
            raise LaunchError(
                f"the working directory {working_directory!r} cannot be entered: "
                f"{error.strerror}. Start the job in a folder that all hosts have."
            ) from error
        os.environ["PWD"] = working_directory
    configure_logging(log_level)
    words = tuple(interpreter or ()) if own is None or own.interpreter is None else own.interpreter
    check_program(LaunchSpec(program=tuple(program), interpreter=words))
    values = {} if num_gpus is None else {GPUS_PER_NODE.name: num_gpus}
    facts = inspect_host(Settings(values, exports), os.environ, allow_gpus)
    facts = inspect_addresses(facts, os.environ)
    return asdict(facts if own is None else replace(facts, **asdict(own)))


def _take_standard_descriptors() -> tuple[int, int]:
    """Keep stdin and stdout for the channel alone: what else is printed goes to stderr."""
    read_fd, write_fd = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)
    return read_fd, write_fd


def main() -> None:
    """Serve the launcher that has started this process."""
    channel = _take_standard_descriptors()
    with selectors.PollSelector() as selector, SignalInbox() as inbox:
        HostAgent(selector, inbox).serve(*channel)


if __name__ == "__main__":
    main()
