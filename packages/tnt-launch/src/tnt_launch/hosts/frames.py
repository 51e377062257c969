"""What the two ends of a channel exchange: messages with a kind, fields, and bytes."""

from __future__ import annotations

import hmac
import json
import struct
from collections.abc import Iterator, Mapping
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
                raise FrameError("what comes through the connection is not from tarantella")
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
            raise FrameError("a message is not from who it should be from")
        return _decode(data[_SIZES.size : body_at], data[body_at:])


def _decode(header: bytes, body: bytes) -> Frame:
    try:
        kind, node, fields = json.loads(header)
    except (ValueError, TypeError) as error:
        raise FrameError("a message is malformed") from error
    if not (isinstance(kind, str) and isinstance(node, int) and isinstance(fields, dict)):
        raise FrameError("a message is malformed")
    return Frame(kind, node, fields, body)
