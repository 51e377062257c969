"""A connection to another process of the job, over pipes or a socket, without blocking."""

from __future__ import annotations

import contextlib
import os
import selectors
import time
from collections.abc import Callable

from tnt_launch.hosts.frames import (
    PREAMBLE,
    Frame,
    FrameAuthenticator,
    FrameError,
    FrameReader,
    encode,
)

BEAT_S = 1.0  # time between two signs of life

# A channel through which nothing has come for this time has ended: a cable that is pulled ends no
# connection. Ranks whose launcher cannot be reached are to end within 10 s.
SILENCE_S = 6.0

HIGH_WATER = 1 << 20  # bytes on their way from which on no more should be sent

_READ_SIZE = 1 << 16
_FLUSH_S = 1.0


class Channel:
    """Frames both ways between two processes. Not thread-safe."""

    def __init__(
        self,
        selector: selectors.BaseSelector,  # data of its keys are functions to call
        read_fd: int,
        write_fd: int,
        on_frame: Callable[[Frame], None],
        on_end: Callable[[str], None],  # once, with the reason; not after `close`
        *,
        waits_for_begin: bool = False,  # it is being started, and may be silent at first
    ) -> None:
        """Take two descriptors over, which may not be the same, and begin to read."""
        self.has_ended = False  # no more will come
        self.reader = FrameReader()
        self._selector, self._read_fd, self._write_fd = selector, read_fd, write_fd
        self._on_frame, self._on_end = on_frame, on_end
        self._authenticator: FrameAuthenticator | None = None
        self._pending = bytearray(PREAMBLE)
        self._is_writing = self._is_reading = self._is_other_stopped = False
        now = time.monotonic()
        self._heard_at, self._beat_at, self._ticked_at = now, now, now
        self._has_begun = not waits_for_begin
        for fd in (read_fd, write_fd):
            os.set_blocking(fd, False)
        self.set_reading(True)
        self._write()

    @property
    def is_full(self) -> bool:
        """Whether more should be sent only later."""
        return len(self._pending) > HIGH_WATER

    def hand_over(self, on_frame: Callable[[Frame], None], on_end: Callable[[str], None]) -> None:
        """Let others have the frames and the end from now on; see the constructor."""
        self._on_frame, self._on_end = on_frame, on_end

    def authenticate_by(self, authenticator: FrameAuthenticator) -> None:
        """Sign and check all frames from now on."""
        self._authenticator = self.reader.authenticator = authenticator

    def send(self, frame: Frame) -> None:
        """Send a frame as soon as the other end takes it; nothing after the end."""
        if not self.has_ended:
            self._pending += encode(frame, self._authenticator)
            self._write()

    def set_reading(self, is_reading: bool) -> None:
        """Stop or go on reading; the other end then has to wait."""
        if is_reading == self._is_reading or self.has_ended:
            return
        self._is_reading = is_reading
        if is_reading:
            self._heard_at = time.monotonic()
            self._selector.register(self._read_fd, selectors.EVENT_READ, self._read)
        else:
            self._selector.unregister(self._read_fd)

    def announce_stop(self, is_stopped: bool) -> None:
        """Tell the other end that this process is about to be stopped, or goes on."""
        # While it is stopped, as by Ctrl-Z, the other end does not miss its signs of life.
        self.send(Frame("stop", 0, {"is_stopped": is_stopped}))
        self.flush(_FLUSH_S)

    def tick(self, now: float) -> float | None:
        """Send a sign of life if due, look for the other end's, return when to call again."""
        if self.has_ended:
            return None
        if now - self._ticked_at > 2 * BEAT_S:  # this process was stopped, and heard nothing
            self._heard_at += now - self._ticked_at
        self._ticked_at = now
        is_missed = self._is_reading and self._has_begun and not self._is_other_stopped
        if is_missed and now - self._heard_at > SILENCE_S:
            self._end(f"nothing was heard of it for {SILENCE_S:g} s")
            return None
        if now >= self._beat_at:
            self._beat_at = now + BEAT_S
            if not self._pending:  # what is on its way is a sign of life, too
                self.send(Frame("beat"))
        return self._beat_at

    def close(self) -> None:
        """Close the connection, after a last attempt to send what is on its way."""
        if not self.has_ended:
            self._write()
            self._release()

    def flush(self, limit_s: float) -> None:
        """Wait until everything is sent, up to a time."""
        end = time.monotonic() + limit_s
        while self._pending and not self.has_ended and time.monotonic() < end:
            self._write()
            time.sleep(0.002)

    def _read(self) -> None:
        if self.has_ended:  # closed since the selector has looked
            return
        try:
            data = os.read(self._read_fd, _READ_SIZE)
        except BlockingIOError:
            return
        except OSError as error:
            self._end(f"the connection has ended: {error.strerror}")
            return
        if not data:
            self._end("the connection has ended")
            return
        self._heard_at = time.monotonic()
        self._has_begun = True
        try:
            for frame in self.reader.feed(data):
                if frame.kind == "stop":
                    self._is_other_stopped = bool(frame.fields["is_stopped"])
                elif frame.kind != "beat":
                    self._on_frame(frame)
                if self.has_ended:
                    return
        except FrameError as error:
            self._end(str(error))

    def _write(self) -> None:
        if self.has_ended:
            return
        try:
            while self._pending:
                count = os.write(self._write_fd, self._pending[:_READ_SIZE])
                del self._pending[:count]
        except BlockingIOError:
            pass
        except OSError:  # the reason comes through the other descriptor
            self._pending.clear()
        if bool(self._pending) != self._is_writing:
            self._is_writing = bool(self._pending)
            if self._is_writing:
                self._selector.register(self._write_fd, selectors.EVENT_WRITE, self._write)
            else:
                self._selector.unregister(self._write_fd)

    def _end(self, why: str) -> None:
        self._release()
        self._on_end(why)

    def _release(self) -> None:
        self.has_ended = True
        for fd in (self._read_fd, self._write_fd):
            with contextlib.suppress(KeyError):
                self._selector.unregister(fd)
            os.close(fd)
        self._pending.clear()
