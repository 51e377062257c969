"""A terminal of rank 0's own, where what it writes is kept in a file too."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import termios
import time
import tty
from collections.abc import Callable
from types import FrameType

from tnt_launch.errors import LaunchError

STDOUT = 1
READ_SIZE = 1 << 16
# Bounds what is read at the end, if a process that a rank has left behind still writes.
LAST_S = 1.0


class TerminalCopy(contextlib.AbstractContextManager["TerminalCopy"]):
    """Replace stdout by a pseudo-terminal, which is a terminal; a context manager."""

    # Rank 0 inherits it, with the size of the terminal, and finds what it expects of one: a
    # progress bar goes on being one. What is written to it is to be read here and passed on.

    def __init__(self) -> None:
        self.take: Callable[[bytes], None] = lambda data: None
        self._main, copy = pty.openpty()
        tty.setraw(copy)  # the terminal itself turns \n into \r\n
        self.terminal = fcntl.fcntl(STDOUT, fcntl.F_DUPFD_CLOEXEC, 3)  # the terminal itself
        os.dup2(copy, STDOUT)
        os.close(copy)
        os.set_blocking(self._main, False)
        self._copy_size()
        self._old_handler = signal.signal(signal.SIGWINCH, self._on_new_size)

    def fileno(self) -> int:
        """Return the descriptor that is readable when something was written."""
        return self._main

    def advance(self) -> bool:
        """Pass on what was written, and return whether there may be more at some time."""
        try:
            data = os.read(self._main, READ_SIZE)
        except BlockingIOError:
            return True
        except OSError:  # nobody can write to it now
            return False
        self.take(data)
        return True

    def finish(self) -> None:
        """Give stdout back and pass on the rest. Call it when the ranks have ended."""
        if self._main < 0:
            return
        os.dup2(self.terminal, STDOUT)
        end = time.monotonic() + LAST_S
        while (left_s := end - time.monotonic()) > 0:
            # What was written last may be on its way; the end of it is an error of reading.
            select.select([self._main], [], [], left_s)
            if not self.advance():
                break
        os.close(self._main)
        self._main = -1

    def __exit__(self, *_: object) -> None:
        self.finish()
        signal.signal(signal.SIGWINCH, self._old_handler)
        os.close(self.terminal)

    def _on_new_size(self, number: int, frame: FrameType | None) -> None:
        self._copy_size()

    def _copy_size(self) -> None:
        with contextlib.suppress(OSError):
            size = fcntl.ioctl(self.terminal, termios.TIOCGWINSZ, bytes(8))
            fcntl.ioctl(self._main, termios.TIOCSWINSZ, size)


def open_terminal() -> TerminalCopy:
    """Replace stdout; a LaunchError says that there is no pseudo-terminal."""
    try:
        return TerminalCopy()
    except OSError as error:
        raise LaunchError(
            f"--output-dir needs a pseudo-terminal for rank 0, but none is available: {error}. "
            "Redirect stdout, or leave the option out."
        ) from error
