"""The ranks of one library as processes, and one request to all of them at a time."""

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
from pathlib import Path
from typing import Any, TextIO

from benchmarks.allreduce.libraries import LibrarySpec

START_S = 120
REQUEST_S = 300
END_S = 10
Rank = tuple[socket.socket, TextIO]  # the connection, and the lines that arrive on it


class LibraryFailed(RuntimeError):
    """A library could not be started, gave a wrong sum, or ended."""


class ProcessSet:
    """All ranks of one library. Use as a context manager: its end ends what it started.

    Ranks sleep on their connection between requests, so that libraries do not disturb each other.
    """

    def __init__(self, spec: LibrarySpec, num_ranks: int, peers_folder: Path) -> None:
        self.spec = spec
        self._num_ranks = num_ranks
        self._processes: list[subprocess.Popen[bytes]] = []
        self._pids_of_ranks: list[int] = []
        self._deadline = time.monotonic() + START_S
        self._stack = contextlib.ExitStack()
        try:
            self._start(peers_folder)
        except BaseException:
            self.close()
            raise

    def _start(self, peers_folder: Path) -> None:
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        path = folder / "driver"
        self._output = self._stack.enter_context((folder / "output").open("w+b"))
        listener = self._stack.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(str(path))
        listener.listen(self._num_ranks)
        commands = self.spec.commands(self._num_ranks, peers_folder, path)
        for index, command in enumerate(commands):
            process = subprocess.Popen(
                command,
                env=self.spec.environment(index, self._num_ranks, path),
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._processes.append(process)
        self._ranks = [self._accept(listener) for _ in range(self._num_ranks)]
        hello = [self._receive(rank) for rank in self._ranks]
        self.versions: dict[str, str] = hello[0]["versions"]
        self.variants: list[str] = hello[0]["variants"]
        if self.spec.is_busy_when_idle:
            self._pids_of_ranks = [message["pid"] for message in hello]
        self._signal_ranks(signal.SIGSTOP)

    def _accept(self, listener: socket.socket) -> Rank:
        self._wait_for(listener)
        connection = self._stack.enter_context(listener.accept()[0])
        return connection, self._stack.enter_context(connection.makefile("r", encoding="utf-8"))

    def measure(self, variant: str, workload: str, block: int, num_blocks: int) -> list[float]:
        """Do what `rank.measure` says on all ranks.

        Returns:
            Seconds of one call, as the mean of each block; the slowest rank's.

        Raises:
            LibraryFailed: If a sum is wrong or a rank ends.
        """
        self._deadline = time.monotonic() + REQUEST_S
        request = {
            "variant": variant,
            "workload": workload,
            "block": block,
            "num_blocks": num_blocks,
        }
        self._signal_ranks(signal.SIGCONT)
        for connection, _ in self._ranks:
            self._send(connection, request)
        answers = [self._receive(rank)["times"] for rank in self._ranks]
        self._signal_ranks(signal.SIGSTOP)
        return [max(of_ranks) for of_ranks in zip(*answers, strict=True)]

    def _signal_ranks(self, number: signal.Signals) -> None:
        for pid in self._pids_of_ranks:
            os.kill(pid, number)

    def _send(self, connection: socket.socket, request: dict[str, Any]) -> None:
        try:
            connection.sendall(json.dumps(request).encode() + b"\n")
        except OSError as error:
            raise self._failure(f"a rank has ended ({error})") from error

    def _receive(self, rank: Rank) -> dict[str, Any]:
        connection, lines = rank
        self._wait_for(connection)
        line = lines.readline()
        if not line:
            raise self._failure("a rank has ended")
        message: dict[str, Any] = json.loads(line)
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

    def _failure(self, reason: str) -> LibraryFailed:
        self._output.seek(0)
        output = self._output.read().decode(errors="replace")
        codes = [process.poll() for process in self._processes]
        return LibraryFailed(
            f"{self.spec.name}, {self._num_ranks} ranks: {reason}; exit codes {codes}. If one was "
            f"killed (-9, 137), memory was short: leave out libraries (--peers).\n{output}"
        )

    def close(self) -> None:
        """End the ranks by closing their connections; what does not end is killed. Idempotent."""
        with contextlib.suppress(ProcessLookupError):
            self._signal_ranks(signal.SIGCONT)
        self._pids_of_ranks = []
        self._stack.close()
        for process in self._processes:
            _end(process)
        self._processes = []

    def __enter__(self) -> ProcessSet:
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
