"""A connection to another process of the job: frames over pipes or a socket, without blocking."""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import selectors
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

# Comes before the first frame: a login shell may have printed something.
PREAMBLE = b"\ntarantella channel 1\n"

MAX_NOISE = 1 << 16
MAX_SIZE = 1 << 26  # largest header and largest body of a frame, in bytes

_SIZES = struct.Struct("!II")


class FrameError(Exception):
    """The bytes are not those of frames, or not from who they should be from."""


@dataclass(frozen=True)
class Frame:
    """One message."""

    kind: str
    node: int = 0  # that it is for, or that it comes from
    fields: Mapping[str, Any] = field(default_factory=dict)  # values that JSON knows
    body: bytes = b""


class FrameAuthenticator:
    """Proves to the other end where frames of a connection are from, and that none is missing."""

    size = 32

    def __init__(self, key: bytes, *, has_connected: bool) -> None:
        self._key = key
        self._sent, self._received = (b"up", b"down") if has_connected else (b"down", b"up")
        self._num_sent = self._num_received = 0

    def sign(self, data: bytes) -> bytes:
        """Return the proof for the next frame that is sent."""
        self._num_sent += 1
        return self._proof(self._sent, self._num_sent, data)

    def verify(self, data: bytes, proof: bytes) -> bool:
        """Return whether `proof` is that of the next frame that comes."""
        self._num_received += 1
        return hmac.compare_digest(self._proof(self._received, self._num_received, data), proof)

    def _proof(self, direction: bytes, number: int, data: bytes) -> bytes:
        return hmac.digest(self._key, b"%s %d " % (direction, number) + data, "sha256")


def encode(frame: Frame, authenticator: FrameAuthenticator | None = None) -> bytes:
    """Return the bytes of a frame. Texts may hold bytes that are no UTF-8, as Python knows them."""
    header = json.dumps([frame.kind, frame.node, frame.fields], separators=(",", ":")).encode()
    data = _SIZES.pack(len(header), len(frame.body)) + header + frame.body
    return data if authenticator is None else data + authenticator.sign(data)


class FrameReader:
    """Cuts what comes through a channel into frames."""

    def __init__(self, max_size: int = MAX_SIZE) -> None:
        self.authenticator: FrameAuthenticator | None = None  # checks the frames from now on
        self.max_size = max_size  # of a header and of a body, in bytes
        self.noise = b""  # what came before the preamble
        self._data = bytearray()
        self._has_begun = False

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Add bytes and yield the frames that are complete now, or raise FrameError."""
        self._data += data
        if not self._has_begun and not self._skip_preamble():
            return
        while True:
            frame = self._next()
            if frame is None:
                return
            yield frame

    def _skip_preamble(self) -> bool:
        noise, found, rest = bytes(self._data).partition(PREAMBLE)
        if not found:
            if len(noise) > MAX_NOISE:
                raise FrameError("the data on the connection is not from tarantella")
            self.noise = noise
            return False
        self.noise, self._data, self._has_begun = noise, bytearray(rest), True
        return True

    def _next(self) -> Frame | None:
        if len(self._data) < _SIZES.size:
            return None
        header_size, body_size = _SIZES.unpack_from(self._data)
        if max(header_size, body_size) > self.max_size:
            raise FrameError("a message is too large")
        body_at = _SIZES.size + header_size
        end = body_at + body_size
        proof_size = 0 if self.authenticator is None else self.authenticator.size
        if len(self._data) < end + proof_size:
            return None
        data, proof = bytes(self._data[:end]), bytes(self._data[end : end + proof_size])
        del self._data[: end + proof_size]
        if self.authenticator is not None and not self.authenticator.verify(data, proof):
            raise FrameError("a message is not from the expected sender")
        return _decode(data[_SIZES.size : body_at], data[body_at:])


def _decode(header: bytes, body: bytes) -> Frame:
    try:
        kind, node, fields = json.loads(header)
    except (ValueError, TypeError) as error:
        raise FrameError("a message is malformed") from error
    if not (isinstance(kind, str) and isinstance(node, int) and isinstance(fields, dict)):
        raise FrameError("a message is malformed")
    return Frame(kind, node, fields, body)


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
            self._end(f"nothing was heard from it for {SILENCE_S:g} s")
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
