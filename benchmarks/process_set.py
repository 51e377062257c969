"""The ranks of one program as processes, and one request to all of them at a time."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO, TypeVar

END_S = 10
Message = dict[str, Any]
Set = TypeVar("Set", bound="ProcessSet")
Rank = tuple[socket.socket, TextIO]  # the connection, and the lines that arrive on it


class ProcessesFailed(RuntimeError):
    """Ranks could not be started, answered with an error, or ended."""


@dataclass(frozen=True)
class Start:
    """How to start a process: a rank, or a launcher that starts all of them."""

    command: Sequence[str]
    environment: dict[str, str]  # all variables


class ProcessSet:
    """All ranks of one program. Its end, as that of a context manager, ends what it started."""

    # Ranks sleep on their connection between requests, so that programs do not disturb each other.

    def __init__(
        self,
        name: str,
        num_ranks: int,
        starts_of: Callable[[Path], Sequence[Start]],
        *,
        start_s: float,
        request_s: float,
        is_busy_when_idle: bool = False,
    ) -> None:
        self.name = name
        self._num_ranks = num_ranks
        self._request_s = request_s
        self._processes: list[subprocess.Popen[bytes]] = []
        self._stopped_pids: list[int] = []
        self._deadline = time.monotonic() + start_s
        self._stack = contextlib.ExitStack()
        try:
            self.hello = self._start(starts_of)
            if is_busy_when_idle:
                self._stopped_pids = [message["pid"] for message in self.hello]
            self._signal_ranks(signal.SIGSTOP)
        except BaseException:
            self.close()
            raise

    def _start(self, starts_of: Callable[[Path], Sequence[Start]]) -> list[Message]:
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        path = folder / "driver"
        self._output = self._stack.enter_context((folder / "output").open("w+b"))
        listener = self._stack.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(str(path))
        listener.listen(self._num_ranks)
        for start in starts_of(path):
            process = subprocess.Popen(
                start.command,
                env=start.environment,
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._processes.append(process)
        self._ranks = [self._accept(listener) for _ in range(self._num_ranks)]
        return [self._receive(rank) for rank in self._ranks]

    def _accept(self, listener: socket.socket) -> Rank:
        self._wait_for(listener)
        connection = self._stack.enter_context(listener.accept()[0])
        return connection, self._stack.enter_context(connection.makefile("r", encoding="utf-8"))

    def ask(self, request: Message) -> list[Message]:
        """Send one request to all ranks. Returns the answers of all, in the order of `hello`."""
        self._deadline = time.monotonic() + self._request_s
        self._signal_ranks(signal.SIGCONT)
        for connection, _ in self._ranks:
            self._send(connection, request)
        answers = [self._receive(rank) for rank in self._ranks]
        self._signal_ranks(signal.SIGSTOP)
        return answers

    def _signal_ranks(self, number: signal.Signals) -> None:
        for pid in self._stopped_pids:
            os.kill(pid, number)

    def _send(self, connection: socket.socket, request: Message) -> None:
        try:
            connection.sendall(json.dumps(request).encode() + b"\n")
        except OSError as error:
            raise self._failure(f"a rank has ended ({error})") from error

    def _receive(self, rank: Rank) -> Message:
        connection, lines = rank
        self._wait_for(connection)
        line = lines.readline()
        if not line:
            raise self._failure("a rank has ended")
        message: Message = json.loads(line)
        if "error" in message:
            raise self._failure(message["error"])
        return message

    def _wait_for(self, readable: socket.socket) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(readable, selectors.EVENT_READ)
            while not selector.select(timeout=1):
                if any(process.poll() is not None for process in self._processes):
                    raise self._failure("a process has ended")
                if time.monotonic() > self._deadline:
                    raise self._failure("no answer in time")

    def _failure(self, reason: str) -> ProcessesFailed:
        self._output.seek(0)
        output = self._output.read().decode(errors="replace")
        codes = [process.poll() for process in self._processes]
        return ProcessesFailed(
            f"{self.name}, {self._num_ranks} ranks: {reason}; exit codes {codes}. If one was "
            f"killed (-9, 137), memory was short: measure less at a time.\n{output}"
        )

    def close(self) -> None:
        """End the ranks by closing their connections; what does not end is killed. Idempotent."""
        with contextlib.suppress(ProcessLookupError):
            self._signal_ranks(signal.SIGCONT)
        self._stopped_pids = []
        self._stack.close()
        for process in self._processes:
            _end(process)
        self._processes = []

    def __enter__(self: Set) -> Set:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    """Wait; then ask, since a launcher that is asked ends its ranks; then insist."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            process.wait(timeout=END_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, number)
    process.wait()


def serve(path: str, hello: Message, answer: Callable[[Message], Message]) -> None:
    """Be a rank: answer requests, a line of JSON each, until the driver closes the connection."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        lines = connection.makefile("rw", encoding="utf-8")

        def send(message: Message) -> None:
            lines.write(json.dumps(message) + "\n")
            lines.flush()

        send({"pid": os.getpid(), **hello})
        for line in lines:
            try:
                send(answer(json.loads(line)))
            except Exception:
                send({"error": traceback.format_exc()})
