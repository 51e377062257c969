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
Rank = tuple[socket.socket, TextIO]  # the connection, and the lines that arrive on it


class LibraryFailed(RuntimeError):
    """A library could not be started, gave a wrong sum, or ended."""


class ProcessSet:
    """All ranks of one library. Use as a context manager: the end closes what it started.

    Ranks sleep on their connection between requests, so libraries do not disturb each other.
    """

    def __init__(self, spec: LibrarySpec, num_ranks: int, peers_folder: Path) -> None:
        self.spec, self.num_ranks = spec, num_ranks
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
        listener.listen(self.num_ranks)
        self._processes = [
            subprocess.Popen(
                command,
                env=self.spec.environment(index, self.num_ranks, path),
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            for index, command in enumerate(self.spec.commands(self.num_ranks, peers_folder, path))
        ]
        self._deadline = time.monotonic() + START_S
        self._ranks = [self._accept(listener) for _ in range(self.num_ranks)]
        hello = [self._receive(rank) for rank in self._ranks]
        self.versions: dict[str, str] = hello[0]["versions"]
        self.variants: list[str] = hello[0]["variants"]

    def _accept(self, listener: socket.socket) -> Rank:
        self._wait_for(listener)
        connection = self._stack.enter_context(listener.accept()[0])
        return connection, self._stack.enter_context(connection.makefile("r", encoding="utf-8"))

    def measure(self, variant: str, workload: str, block: int, num_blocks: int) -> list[float]:
        """See `rank.measure`; the slowest rank's time of each block.

        Raises:
            LibraryFailed: If a sum is wrong or a rank ends.
        """
        self._deadline = time.monotonic() + REQUEST_S
        request = dict(variant=variant, workload=workload, block=block, num_blocks=num_blocks)
        for connection, _ in self._ranks:
            connection.sendall(json.dumps(request).encode() + b"\n")
        answers = [self._receive(rank)["times"] for rank in self._ranks]
        return [max(of_ranks) for of_ranks in zip(*answers, strict=True)]

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
                codes = [process.poll() for process in self._processes]
                if any(code is not None for code in codes):
                    raise self._failure(f"a process has ended, exit codes {codes}")
                if time.monotonic() > self._deadline:
                    raise self._failure("no answer")

    def _failure(self, reason: str) -> LibraryFailed:
        self._output.seek(0)
        output = self._output.read().decode(errors="replace")
        return LibraryFailed(f"{self.spec.name}, {self.num_ranks} ranks: {reason}\n{output}")

    def close(self) -> None:
        """Closing the connections ends the ranks; what does not end is killed. Idempotent."""
        self._stack.close()
        for process in getattr(self, "_processes", []):
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def __enter__(self) -> ProcessSet:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
