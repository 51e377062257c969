"""The agents that this process has had started on other hosts, and those that are below them."""

from __future__ import annotations

import contextlib
import itertools
import os
import selectors
import shlex
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tnt_launch.hosts.channel import Channel, Frame

_LEAVING_S = 2.0  # time that ssh has to end after its agent
_ENDED_S = 0.3  # time between the end of the output of ssh and its own

_MAX_ERRORS = 1 << 14
_NOT_FOUND, _NOT_EXECUTABLE, _SSH_FAILED = 127, 126, 255


@dataclass
class _Child:
    """An agent one step down the tree with its channel, and the process that has started it."""

    # Either may be missing: an agent that has come by itself, and what has started such agents.
    node: int
    channel: Channel | None = None
    process: subprocess.Popen[bytes] | None = None
    errors: bytearray = field(default_factory=bytearray)
    way: str = ""  # the command that the user may try where it has failed


class Children:
    """Start agents, send them frames, take theirs. Not thread-safe."""

    # Frames for a host that is not a child itself go to the child that was assigned to it.

    def __init__(
        self,
        selector: selectors.BaseSelector,
        on_frame: Callable[[Frame], None],
        # for the child, and for each host that was assigned to it
        on_lost: Callable[[int, str], None],
        interpreter: str = "",  # Python of the agents, for messages
    ) -> None:
        self._selector, self._on_frame, self._on_lost = selector, on_frame, on_lost
        self._interpreter = interpreter
        self._children: dict[int, _Child] = {}
        self._routes: dict[int, int] = {}
        self._no_nodes = itertools.count(-1, -1)

    def start(self, node: int, argv: Sequence[str]) -> None:
        """Start the agent of a host by a command whose stdin and stdout become its channel."""
        words = argv[:1] if argv[0] == "ssh" else argv[:-2]
        child = _Child(node, way=f"{shlex.join(words)} HOST true")
        if not self._start(child, argv, subprocess.PIPE):
            self._on_lost(node, child.errors.decode())
            return
        assert child.process is not None
        stdin, stdout = child.process.stdin, child.process.stdout
        assert stdin is not None
        assert stdout is not None
        self._routes[node] = node
        child.channel = Channel(
            self._selector,
            os.dup(stdout.fileno()),
            os.dup(stdin.fileno()),
            self._on_frame,
            lambda why: self._lose(child, why),
            waits_for_begin=True,
        )
        stdin.close()
        stdout.close()

    def start_apart(
        self, nodes: Sequence[int], argv: Sequence[str], environment: Mapping[str, str]
    ) -> None:
        """Start the agents of hosts by one command; they come by themselves, and are adopted."""
        child = _Child(next(self._no_nodes))
        if self._start(child, argv, subprocess.DEVNULL, environment):
            self._routes.update(dict.fromkeys(nodes, child.node))
            return
        for node in nodes:
            self._on_lost(node, child.errors.decode())

    def said_of(self, node: int) -> str:
        """Return the last line of what starts an agent that has not come, in brackets."""
        child = self._children.get(self._routes.get(node, 0))
        said = "" if child is None else child.errors.decode(errors="replace").strip()
        return f" ({said.splitlines()[-1]})" if said else ""

    def adopt(self, node: int, channel: Channel) -> None:
        """Take over the channel of an agent that has come by itself."""
        child = self._children[node] = _Child(node, channel)
        self._routes[node] = node
        channel.hand_over(self._on_frame, lambda why: self._lose(child, why))

    def assign(self, node: int, child: int) -> None:
        """Send frames for `node` to `child`."""
        self._routes[node] = child

    def forget(self, node: int) -> None:
        """Send `node` no more frames."""
        self._routes.pop(node, None)

    def send(self, frame: Frame) -> None:
        """Send a frame to the host that it is for, if it is not lost."""
        child = self._children.get(self._routes.get(frame.node, -1))
        if child is not None and child.channel is not None:
            child.channel.send(frame)

    def set_reading(self, is_reading: bool) -> None:
        """Stop or go on taking frames of all children."""
        for channel in self._channels:
            channel.set_reading(is_reading)

    def announce_stop(self, is_stopped: bool) -> None:
        """Tell all children that this process is about to be stopped, or goes on."""
        for channel in self._channels:
            channel.announce_stop(is_stopped)

    def tick(self, now: float) -> float | None:
        """Look for silent children; return when to call again, on the clock of `now`."""
        times = [channel.tick(now) for channel in self._channels]
        return min((time for time in times if time is not None), default=None)

    def close(self) -> None:
        """Close all channels, upon which the agents end, and wait for the processes of ssh."""
        for channel in self._channels:
            channel.close()
        for child in self._children.values():
            _end(child)
            self._forget_errors(child)

    @property
    def _channels(self) -> list[Channel]:
        return [child.channel for child in self._children.values() if child.channel is not None]

    def _start(
        self,
        child: _Child,
        argv: Sequence[str],
        pipe: int,
        environment: Mapping[str, str] | None = None,
    ) -> bool:
        """Start the process of a child; if that fails, `errors` says why."""
        try:
            # A session of its own: the Ctrl-C of a terminal must reach the ranks through us.
            child.process = subprocess.Popen(
                argv,
                stdin=pipe,
                stdout=pipe,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
                env=environment,
            )
        except OSError as error:
            child.errors += f"{argv[0]}: {error.strerror}".encode()
            return False
        self._children[child.node] = child
        assert child.process.stderr is not None
        self._watch_errors(child, child.process.stderr.fileno())
        return True

    def _lose(self, child: _Child, why: str) -> None:
        exit_code = _wait(child)
        if child.process is not None:
            self._read_errors(child)
            # A shell that refuses the login may say so on stdout, which is for the agent's frames.
            noise = b"" if child.channel is None else child.channel.reader.noise
            output = (child.errors.strip() or noise).decode(errors="replace")
            told = failure_text(exit_code, output, self._interpreter, child.way)
            why = told or why
        nodes = [node for node, via in self._routes.items() if via == child.node]
        for node in nodes:
            del self._routes[node]
            is_below = 0 <= child.node != node
            self._on_lost(node, f"the connection through it: {why}" if is_below else why)

    def _watch_errors(self, child: _Child, fd: int) -> None:
        os.set_blocking(fd, False)
        self._selector.register(fd, selectors.EVENT_READ, lambda: self._read_errors(child))

    def _read_errors(self, child: _Child) -> None:
        assert child.process is not None
        assert child.process.stderr is not None
        if child.process.stderr.closed:
            return
        with contextlib.suppress(BlockingIOError):
            while data := os.read(child.process.stderr.fileno(), 1 << 12):
                child.errors += data
                del child.errors[:-_MAX_ERRORS]
            self._forget_errors(child)
            if child.channel is None:  # the command has ended
                self._lose(child, "")

    def _forget_errors(self, child: _Child) -> None:
        if child.process is None or child.process.stderr is None or child.process.stderr.closed:
            return
        with contextlib.suppress(KeyError):
            self._selector.unregister(child.process.stderr.fileno())
        child.process.stderr.close()


def _wait(child: _Child) -> int | None:
    if child.process is None:
        return None
    try:
        return child.process.wait(_ENDED_S)
    except subprocess.TimeoutExpired:
        child.process.kill()  # a silent one; what runs on the host ends by itself
        return None


def _end(child: _Child) -> None:
    if child.process is None:
        return
    try:
        child.process.wait(_LEAVING_S)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.process.pid, signal.SIGKILL)
        child.process.wait()


def failure_text(exit_code: int | None, errors: str, interpreter: str, way: str) -> str:
    """Say why an agent has not come, or has gone, from what ssh and the host wrote. Pure."""
    lines = errors.strip().splitlines()
    # What srun says last is only that something has ended.
    telling = [line for line in lines if not line.startswith("srun: ")] or lines
    last = telling[-1].strip() if telling else ""
    if "No module named" in last and "tnt_launch" in last:
        return (
            f"{interpreter} has no tarantella there. Install the same version of tarantella on all "
            "hosts, at the same path."
        )
    if exit_code in (_NOT_FOUND, _NOT_EXECUTABLE):
        return (
            f"{interpreter} cannot be executed there ({last}). Install Python and tarantella on "
            "all hosts, at the same path."
        )
    if exit_code is None:
        return last
    if not way:
        return f"{last or 'no message'} (exit code {exit_code})"
    if exit_code == _SSH_FAILED:
        told = last or f"{way.split()[0]} failed without a message"
        return f"{told} (`{way}` must work without a prompt)"
    return (
        f"it ended too early: {last or 'no message'} (exit code {exit_code}). `{way}` must work, "
        "without output and without a terminal (RequestTTY, -t)"
    )
