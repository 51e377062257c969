"""One rank as a child process: start it, talk to it, look at its stacks, end it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from tnt_comm.testing.child import HEADER
from tnt_comm.testing.preloaded import ForkedProcess, Preloaded

CHILD_PROGRAM = str(Path(__file__).with_name("child.py"))
STACKS_APPEAR_WITHIN_S = 10.0


class RankProcess:
    """A process that runs `child.py` as one rank, fresh or a fork. Not thread-safe."""

    # The kernel kills the process when the thread that created this object ends, so that thread
    # must outlive it.

    def __init__(
        self,
        rank: int,
        environment: Mapping[str, str],
        prefix: Sequence[str] = (),  # its last arguments are the fresh interpreter and its program
        preloaded: Preloaded | None = None,
    ) -> None:
        """Start the process with exactly `environment`. Local."""
        self.rank = rank
        self.channel, child_end = socket.socketpair()
        # Files instead of pipes: a rank that writes much never blocks, a dead one loses nothing.
        self._output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the object
        self._stacks: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the object
        fds = (child_end.fileno(), self._stacks.fileno())
        self._process: subprocess.Popen[bytes] | ForkedProcess
        try:
            if preloaded is None:
                self._process = self._start_interpreter(environment, prefix, fds)
                # becomes readable when the process has ended
                self.exit_fd = os.pidfd_open(self._process.pid)
            else:
                self._process = preloaded.fork(environment, self._output.fileno(), *fds)
                self.exit_fd = self._process.exit_fd
        except BaseException:
            self._close_files()
            raise
        finally:
            child_end.close()
        self.pid = self._process.pid
        self.is_channel_closed = False
        self._received = bytearray()
        self._output_begin = 0

    @property
    def exit_code(self) -> int | None:
        """Exit code as in `subprocess`, `None` while the process lives. Local."""
        return self._process.poll()

    def send(self, message: bytes, timeout_s: float) -> None:
        """Send a call; says nothing if the process is gone, which `exit_code` then shows. Local."""
        self._output_begin = _size(self._output)
        self.channel.settimeout(max(timeout_s, 0.01))
        with contextlib.suppress(OSError):
            self.channel.sendall(HEADER.pack(len(message)) + message)
        self.channel.setblocking(False)

    def receive(self) -> bytes | None:
        """Return the result if it has arrived completely, else `None`; never blocks. Local."""
        # The first byte tells what follows: `v` a pickled value, `t` the text of a traceback.
        try:
            while part := self.channel.recv(1 << 20):
                self._received += part
            self.is_channel_closed = True
        except BlockingIOError:
            pass
        except ConnectionError:
            self.is_channel_closed = True
        if len(self._received) < HEADER.size:
            return None
        end = HEADER.size + HEADER.unpack_from(self._received)[0]
        if len(self._received) < end:
            return None
        message = bytes(self._received[HEADER.size : end])
        del self._received[:end]
        return message

    def ask_for_stacks(self) -> None:
        """Make the process write the stacks of its threads; `stacks()` reads them. Local."""
        if self.exit_code is None and not self._is_stopped() and self._has_stack_handler():
            self._process.send_signal(signal.SIGUSR1)

    def stacks(self) -> str:
        """Return the stacks asked for, waiting a moment for them to be complete. Local."""
        if self._is_stopped():
            return "(the process is stopped, as after SIGSTOP)"
        end = time.monotonic() + STACKS_APPEAR_WITHIN_S
        text, before = "", None
        while self.exit_code is None and time.monotonic() < end and (not text or text != before):
            time.sleep(0.05)
            before, text = text, _content(self._stacks)
        return text or "(no stacks: the process does not react to signals)"

    def output(self) -> str:
        """Return what the process wrote to stdout and stderr since the last call. Local."""
        return _content(self._output, self._output_begin)

    def kill(self) -> None:
        """End the process and the group it leads at once, also when it is stopped. Local."""
        if self.exit_code is None:
            # Its group holds only what it started itself: it leads that group.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    def leave(self, timeout_s: float) -> None:
        """Let an idle process end by itself; kill it after `timeout_s` seconds. Local."""
        self.channel.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=timeout_s)
        self.kill()

    def close(self) -> None:
        """Kill the process if it lives and release everything. Local, idempotent."""
        self.kill()
        if self.exit_fd >= 0:
            os.close(self.exit_fd)
            self.exit_fd = -1
        self._close_files()

    def _close_files(self) -> None:
        for file in (self.channel, self._output, self._stacks):
            file.close()

    def _start_interpreter(
        self, environment: Mapping[str, str], prefix: Sequence[str], fds: tuple[int, int]
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*prefix, sys.executable, CHILD_PROGRAM, *map(str, fds), str(os.getpid())],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            pass_fds=fds,
            start_new_session=True,
        )

    def _is_stopped(self) -> bool:
        try:
            stat = Path(f"/proc/{self.pid}/stat").read_text()
        except OSError:
            return False
        return stat.rpartition(")")[2].split()[0] == "T"

    def _has_stack_handler(self) -> bool:
        # Without the handler, early in the start, the signal would end the process.
        try:
            status = Path(f"/proc/{self.pid}/status").read_text()
        except OSError:
            return False
        caught = int(status.partition("SigCgt:")[2].split()[0], 16)
        return bool(caught >> (signal.SIGUSR1 - 1) & 1)


def _size(file: IO[bytes]) -> int:
    return os.fstat(file.fileno()).st_size


def _content(file: IO[bytes], begin: int = 0) -> str:
    # pread leaves the offset alone, which the writing process shares.
    return os.pread(file.fileno(), _size(file) - begin, begin).decode(errors="replace")
