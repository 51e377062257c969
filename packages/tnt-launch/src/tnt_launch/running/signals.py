"""Signals to the launcher, as something that a loop can wait for."""

from __future__ import annotations

import signal
import socket
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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


def _note(number: int, frame: FrameType | None) -> None:
    """Do nothing: Python has written the number to the wakeup descriptor."""
