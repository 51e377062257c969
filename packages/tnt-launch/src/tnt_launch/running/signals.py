"""Signals to the launcher, as something that a loop can wait for."""

from __future__ import annotations

import contextlib
import signal
import socket
from collections.abc import Iterator
from types import FrameType

# By which a scheduler announces the end of a job. One event brings two or three of them, so that
# another one does not mean more than the first.
ASKING = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
ENDING = (signal.SIGINT, signal.SIGHUP, *ASKING)


class SignalInbox:
    """Collect SIGCHLD and the signals that ask to end or to stop, in the main thread only."""

    # Signals that were ignored when the launcher started, as SIGHUP is under nohup, stay ignored.

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self._old_wakeup_fd = -1
        self._old: dict[int, object] = {}

    def fileno(self) -> int:
        """Return the descriptor that is readable when a signal has come."""
        return self._reader.fileno()

    def take(self) -> bytes:
        """Return the numbers of the signals that have come since the last call."""
        try:
            return self._reader.recv(4096)
        except BlockingIOError:
            return b""

    def __enter__(self) -> SignalInbox:
        self._old_wakeup_fd = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTSTP, *ENDING):
            if number == signal.SIGCHLD or signal.getsignal(number) != signal.SIG_IGN:
                self._old[number] = signal.signal(number, _note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        signal.set_wakeup_fd(self._old_wakeup_fd)
        self._reader.close()
        self._writer.close()


class AskedToEndError(Exception):
    """A signal of a scheduler that came while no rank ran."""

    def __init__(self, number: int) -> None:
        super().__init__(f"asked to end by {signal.Signals(number).name}, while no rank ran")
        self.number = number


@contextlib.contextmanager
def raised_requests() -> Iterator[None]:
    """Raise AskedToEndError where a scheduler asks for the end in the block; main thread only."""

    def ask(number: int, frame: FrameType | None) -> None:
        raise AskedToEndError(number)

    meant = [number for number in ASKING if signal.getsignal(number) == signal.SIG_DFL]
    for number in meant:
        signal.signal(number, ask)
    try:
        yield
    finally:
        for number in meant:
            signal.signal(number, signal.SIG_DFL)


def _note(number: int, frame: FrameType | None) -> None:
    """Do nothing: Python has written the number to the wakeup descriptor."""
