"""Messages between two processes over a socket, each of them signed once both know a key."""

from __future__ import annotations

import contextlib
import hmac
import json
import socket
import struct
from collections.abc import Callable, Mapping
from typing import Any

from tnt_comm.errors import CommError

Message = Mapping[str, Any]

_LENGTH = struct.Struct("<I")
_MOST_BYTES = 1 << 16
_SIGNATURE_BYTES = 32
# A host that vanishes, and ends no connection, is noticed after half a minute.
_OF_LOST_HOSTS = (
    ((socket.SOL_SOCKET, socket.SO_KEEPALIVE), 1),
    ((socket.IPPROTO_TCP, socket.TCP_KEEPIDLE), 10),
    ((socket.IPPROTO_TCP, socket.TCP_KEEPINTVL), 5),
    ((socket.IPPROTO_TCP, socket.TCP_KEEPCNT), 4),
    ((socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT), 30_000),  # milliseconds
)


class SignedConnection:
    """One end of a connection, which never blocks. Not thread-safe.

    A message is its length, JSON, and its signature: the HMAC-SHA-256 of direction, number and
    text, or zeros as long as there is no key. Nothing is encrypted.
    """

    def __init__(self, connection: socket.socket) -> None:
        """Take over a socket, which is closed with this object."""
        connection.setblocking(False)
        if connection.family != socket.AF_UNIX:
            for option, value in _OF_LOST_HOSTS:
                connection.setsockopt(*option, value)
        self._socket = connection
        self._input, self._output = bytearray(), bytearray()
        self._key = b""
        self._directions = (b"", b"")  # of what is sent, and received
        self._numbers = [0, 0]
        self.is_open = True

    def fileno(self) -> int:
        """Return the descriptor, for selectors."""
        return self._socket.fileno()

    @property
    def has_output(self) -> bool:
        """Whether something is still to be sent."""
        return bool(self._output) and self.is_open

    @property
    def own_address(self) -> str:
        """The address that this end has, by which the other one reaches it."""
        return _address(self._socket.getsockname())

    @property
    def peer(self) -> str:
        """The address of the other end; for messages."""
        return _address(self._socket.getpeername()) or "this host"

    def authenticate_by(self, key: bytes, sent: bytes, received: bytes) -> None:
        """Sign from now on what is sent, and expect signatures."""
        self._key, self._directions, self._numbers = key, (sent, received), [0, 0]

    def send(self, message: Message) -> None:
        """Send a message, as far as that is possible at once; `flush` sends the rest."""
        text = json.dumps(message).encode()
        self._output += _LENGTH.pack(len(text)) + text + self._signature(0, text)
        self.flush()

    def flush(self) -> None:
        """Send what can be sent at once; receive nothing, so that a selector tells of input."""
        with contextlib.suppress(BlockingIOError):
            while self.has_output:
                del self._output[: self._attempt(lambda: self._socket.send(self._output))]

    def receive(self) -> None:
        """Receive what can be received at once, for `take`."""
        with contextlib.suppress(BlockingIOError):
            while self.is_open and len(self._input) <= _MOST_BYTES:
                received = self._attempt(lambda: self._socket.recv(_MOST_BYTES))
                if not received:
                    self.is_open = False
                else:
                    self._input += received

    def take(self) -> Message | None:
        """Return the next message that is complete; also after the connection has ended."""
        if len(self._input) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._input)
        end = _LENGTH.size + length
        if length > _MOST_BYTES:
            raise CommError(f"a message from {self.peer} of {length} bytes")
        if len(self._input) < end + _SIGNATURE_BYTES:
            return None
        text = bytes(self._input[_LENGTH.size : end])
        signature = bytes(self._input[end : end + _SIGNATURE_BYTES])
        del self._input[: end + _SIGNATURE_BYTES]
        if not hmac.compare_digest(signature, self._signature(1, text)):
            raise CommError(f"a message from {self.peer} without its signature")
        try:
            message = json.loads(text)
        except ValueError:
            raise CommError(f"no message of a rank from {self.peer}") from None
        if not isinstance(message, dict):
            raise CommError(f"no message of a rank from {self.peer}")
        return message

    def close(self) -> None:
        """End the connection."""
        self.is_open = False
        self._socket.close()

    def _attempt(self, move: Callable[[], Any]) -> Any:
        """Move bytes; the connection has ended if that is impossible."""
        try:
            return move()
        except BlockingIOError:
            raise
        except OSError:
            self.is_open = False
            return 0

    def _signature(self, direction: int, text: bytes) -> bytes:
        if not self._key:
            return bytes(_SIGNATURE_BYTES)
        number = self._numbers[direction]
        self._numbers[direction] += 1
        signed = self._directions[direction] + _LENGTH.pack(number) + text
        return hmac.digest(self._key, signed, "sha256")


def _address(name: Any) -> str:
    """Return the address of a name of a socket; none of sockets that are of one host."""
    return str(name[0]).removeprefix("::ffff:") if isinstance(name, tuple) else ""
