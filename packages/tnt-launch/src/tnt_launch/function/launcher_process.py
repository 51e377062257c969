"""The launcher as its caller sees it: its order, its output, which is passed on, its outcome."""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import pickle
import selectors
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Literal

from tnt_launch.errors import LaunchError
from tnt_launch.function.launcher import Order, Outcome

READ_SIZE = 1 << 16


class Relay(contextlib.AbstractContextManager["Relay"]):
    """Write in the thread that asks for it, whose output a notebook shows; a context manager."""

    def __init__(self, out: int, err: int, message: int) -> None:
        """Read from three pipes; the end of the third is that of the job."""
        # The others may stay open, if a process that a rank has started is not part of the job.
        self.is_over = False  # the job is, and all its output is written
        self.message = b""  # what has come through the pipe that is the launcher's alone
        self._message_fd = message
        self._writers = {out: _Writer("stdout"), err: _Writer("stderr")}
        self._is_muted = False
        self._selector = selectors.DefaultSelector()
        for pipe in (out, err, message):
            os.set_blocking(pipe, False)
            self._selector.register(pipe, selectors.EVENT_READ)

    def __exit__(self, *_: object) -> None:
        self._selector.close()

    def mute(self) -> None:
        """Write nothing more, but go on reading."""
        self._is_muted = True

    def advance(self) -> None:
        """Wait for the next output and write it."""
        ready = {key.fd for key, _ in self._selector.select()}
        has_ended = self._message_fd in ready and not self._read_message()
        # What the ranks have written is in the pipes by now.
        for fd in tuple(self._writers) if has_ended else ready - {self._message_fd}:
            while self._pass_on(fd) and has_ended:
                pass
        self.is_over = has_ended

    def _read_message(self) -> bool:
        data = os.read(self._message_fd, READ_SIZE)
        self.message += data
        return bool(data)

    def _pass_on(self, fd: int) -> bool:
        """Read once, and return whether there may be more at once."""
        try:
            data = os.read(fd, READ_SIZE)
        except BlockingIOError:
            return False
        writer = self._writers[fd]
        if not data:
            self._selector.unregister(fd)
            del self._writers[fd]
        if not self._is_muted:
            writer.write(data)
        return bool(data)


class _Writer:
    """Writes bytes to a stream of text, whatever the stream is at that time."""

    def __init__(self, name: Literal["stdout", "stderr"]) -> None:
        self._name = name
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def write(self, data: bytes) -> None:
        text = self._decoder.decode(data, final=not data)
        stream = getattr(sys, self._name)
        if text and stream is not None:
            stream.write(text)
            stream.flush()


def interpreter() -> str:
    """Return the path of the Python that runs this process."""
    if not sys.executable:
        raise LaunchError("`sys.executable` is empty: set it to the path of the Python to start.")
    return sys.executable


def command_of(module: str, *arguments: int | str) -> tuple[str, str]:
    """Return options of Python that call `main` of a module with arguments."""
    # The search path is this process's from the first import on, so that no file beside a script or
    # notebook takes the place of a module, unless it does so here too.
    path = [os.fspath(entry) for entry in sys.path]
    call = f"main({', '.join(map(repr, arguments))})"
    return "-c", f"import sys; sys.path[:] = {path!r}; from {module} import main; {call}"


class LauncherProcess(contextlib.AbstractContextManager["LauncherProcess"]):
    """A launcher that runs one job for this process; a context manager. Not thread-safe."""

    # It leads a session of its own: the Ctrl-C of a terminal and the interrupt of a notebook's
    # kernel go to whole process groups, and must reach the launcher once, through this process.

    def __init__(self) -> None:
        read_end, write_end = os.pipe()
        try:
            with _interrupts_blocked():  # the launcher accepts them when it can deal with them
                self._popen = subprocess.Popen(
                    (interpreter(), *command_of(f"{__package__}.launcher", os.getpid(), write_end)),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    pass_fds=(write_end,),
                    start_new_session=True,
                )
        except BaseException:
            os.close(read_end)
            raise
        finally:
            os.close(write_end)
        self._outcome_fd = read_end
        self._was_interrupted = False
        pipes = (self._popen.stdin, self._popen.stdout, self._popen.stderr)
        self._stdin, self._stdout, self._stderr = (pipe for pipe in pipes if pipe is not None)

    def __exit__(self, kind: object, *_: object) -> None:
        """Let the launcher end; after an error at once, and all that it started with it."""
        if kind is not None:
            self._popen.kill()
        with contextlib.suppress(BrokenPipeError):
            self._stdin.write(b".")  # it need not keep the folder for us any longer
            self._stdin.close()
        self._stdout.close()
        self._stderr.close()
        os.close(self._outcome_fd)
        self._popen.wait()

    def run(self, order: Order) -> Outcome | None:
        """Run a job and write what comes from it; return `None` if the launcher was killed."""
        reason: BaseException | None = None
        with contextlib.suppress(BrokenPipeError):  # killed already: it gives no outcome
            self._stdin.write(pickle.dumps(order))
            self._stdin.flush()
        pipes = self._stdout.fileno(), self._stderr.fileno(), self._outcome_fd
        with Relay(*pipes) as relay, _first_interrupt_handled(self._interrupt):
            while not relay.is_over:
                try:
                    relay.advance()
                except KeyboardInterrupt as interrupt:
                    reason = interrupt
                    self._interrupt()
                except Exception as error:  # stdout of this process cannot be written
                    reason = error
                    relay.mute()
                    self._popen.send_signal(signal.SIGTERM)
        if reason is not None:
            raise reason
        if self._was_interrupted:
            raise KeyboardInterrupt
        return _read_outcome(relay.message)

    def _interrupt(self) -> None:
        self._was_interrupted = True
        self._popen.send_signal(signal.SIGINT)


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Let SIGINT wait, to this thread and to a process that it starts."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _first_interrupt_handled(handle: Callable[[], None]) -> Iterator[None]:
    """Call a function for the first SIGINT instead of raising KeyboardInterrupt."""
    # Raised between the reading of output and its writing, the exception would lose that output. A
    # second SIGINT raises it, since writing may block. A handler of the user's own stays.
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def take(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        handle()

    signal.signal(signal.SIGINT, take)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _read_outcome(message: bytes) -> Outcome | None:
    try:
        return Outcome(**json.loads(message))
    except ValueError:  # nothing, or only its beginning
        return None
