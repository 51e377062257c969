"""Ranks that need not import: forks of one process that has imported what they use."""

# They differ from fresh interpreters in what a process decides once: they share one hash seed, and
# variables that modules read while they are imported have the values of that one process.

from __future__ import annotations

import os
import pickle
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from types import TracebackType

LIMIT_BYTES = 1 << 17
"""Limit of a message to or from the process: the environment of a rank, or a process id."""

IMPORTED_WITHIN_S = 120.0
"""Limit of the first fork, which waits for the imports. TensorFlow takes 3 s on a quiet machine."""


class ForkedProcess:
    """A fork of another process: what `subprocess.Popen` offers for a child."""

    def __init__(self, pid: int, exit_fd: int) -> None:
        """Remember the process; its exit code, as text, will come on `exit_fd`. Local."""
        self.pid = pid
        self.exit_fd = exit_fd  # becomes readable at its end; whoever uses the object closes it
        self._exit_code: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, or None while the process lives. Local."""
        if self._exit_code is None and self._has_ended_within(0.0):
            # Nothing but the end of the file if the server was killed, with which its forks end.
            self._exit_code = int(os.read(self.exit_fd, 16) or -signal.SIGKILL)
        return self._exit_code

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit code. Local."""
        if self._exit_code is None and not self._has_ended_within(timeout):
            raise subprocess.TimeoutExpired(f"fork {self.pid}", timeout or 0.0)
        exit_code = self.poll()
        assert exit_code is not None
        return exit_code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended. Local."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def _has_ended_within(self, timeout_s: float | None) -> bool:
        poll = select.poll()
        poll.register(self.exit_fd, select.POLLIN)
        return bool(poll.poll(None if timeout_s is None else 1000 * timeout_s))


class Preloaded:
    """A process that has imported modules, to be forked; a context manager.

    It is started by the first fork. Use it in one thread only, and close it before that thread
    ends: the kernel then kills it and its forks.

    Example:
        with Preloaded(["tensorflow"], env={"CUDA_VISIBLE_DEVICES": "-1"}) as preloaded:
            run_ranks(function, 2, preloaded=preloaded)
    """

    def __init__(self, modules: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        """Remember the settings; starts nothing. Local.

        Args:
            modules: Names of modules to import, in that order. They must not start threads that
                their functions wait for, which a fork would lack.
            env: Environment variables to add or replace while they are imported.
        """
        self._modules = list(modules)
        self._env = dict(env or {})
        self._channel: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def fork(
        self, environment: Mapping[str, str], output_fd: int, channel_fd: int, stacks_fd: int
    ) -> ForkedProcess:
        """Fork a process that serves calls as `child.py` does. Local.

        Args:
            environment: All its environment variables.
            output_fd: Where it writes stdout and stderr to.
            channel_fd: Socket on which it receives calls.
            stacks_fd: File for its stacks.

        Returns:
            The process, which leads a process group of its own.

        Raises:
            RuntimeError: If the modules cannot be imported; their traceback is in stderr.
        """
        if self._channel is None:
            self._start()
        assert self._channel is not None
        exit_fd, exit_fd_there = os.pipe()
        try:
            fds = [output_fd, channel_fd, stacks_fd, exit_fd_there]
            socket.send_fds(self._channel, [pickle.dumps(dict(environment))], fds)
            answer = self._channel.recv(LIMIT_BYTES)
        except OSError as error:
            answer, reason = b"", f": {error}"
        else:
            reason = ""
        finally:
            os.close(exit_fd_there)
        if not answer:
            os.close(exit_fd)
            self.close()
            names = ", ".join(self._modules)
            raise RuntimeError(f"The process that imports {names} could not be forked{reason}.")
        return ForkedProcess(int(answer), exit_fd)

    def close(self) -> None:
        """End the process. Idempotent."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> Preloaded:
        """Return the object itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the process."""
        self.close()

    def _start(self) -> None:
        self._channel, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        program = [sys.executable, "-m", "tnt_comm.testing.fork_server"]
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        with there:
            self._process = subprocess.Popen(
                [*program, str(there.fileno()), str(os.getpid()), *self._modules],
                env={**os.environ, **self._env, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(there.fileno(),),
                start_new_session=True,
            )
        self._channel.settimeout(IMPORTED_WITHIN_S)
