"""How two processes prove to each other that they belong to one start of one user.

    rank 0                                        another process
    challenge(a number[, how to know the secret]) ----->
                                                  <----- answer(a number, proof)
    welcome(proof)                                ----->

A proof is the HMAC-SHA-256 under the secret of the role and both numbers, so that it cannot be used
again, nor be sent back. Later messages are signed with a key that is made in the same way.
"""

from __future__ import annotations

import hmac
import os
import secrets
import socket
import struct
from collections.abc import Mapping
from typing import Protocol

from tnt_comm.errors import CommError
from tnt_comm.start.signed_connection import Message, SignedConnection

_PROTOCOL = "tarantella 1"
_NUMBER_BYTES = 32
_CREDENTIALS = struct.Struct("3i")  # process, user and group


class AuthenticationError(CommError):
    """The other end is no process of this start."""

    _symbol = "not-authenticated"


class Trust(Protocol):
    """What makes processes of one start know each other."""

    def check(self, connection: socket.socket) -> None:
        """Refuse an end of a connection by what the kernel says of it."""

    def invitation(self) -> Mapping[str, str]:
        """Return what rank 0 adds to a challenge."""

    def secret(self, challenge: Message) -> bytes:
        """Return the secret: of rank 0 for an empty challenge, else as another process has it."""


class SharedSecret:
    """All know the secret already."""

    def __init__(self, secret: str) -> None:
        self._secret = secret.encode()

    def check(self, connection: socket.socket) -> None:
        """Accept all: proofs show who they are."""

    def invitation(self) -> Mapping[str, str]:
        """Return nothing."""
        return {}

    def secret(self, challenge: Message) -> bytes:
        """Return what all know."""
        return self._secret


class SameUser:
    """On one host the kernel says whose process is at the other end; rank 0 draws the secret."""

    def __init__(self) -> None:
        self._drawn = secrets.token_hex(16)

    def check(self, connection: socket.socket) -> None:
        """Refuse processes of other users."""
        option = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        _, user, _ = _CREDENTIALS.unpack(option)
        if user != os.geteuid():
            raise AuthenticationError(
                f"the socket of this job belongs to another user (uid {user})"
            )

    def invitation(self) -> Mapping[str, str]:
        """Return the secret, which no one else can read."""
        return {"secret": self._drawn}

    def secret(self, challenge: Message) -> bytes:
        """Return what rank 0 has drawn."""
        return str(challenge.get("secret", self._drawn)).encode()


class ServerHandshake:
    """The end of rank 0, until the other one is trusted."""

    def __init__(self, connection: SignedConnection, trust: Trust) -> None:
        """Send the challenge."""
        self._connection, self._trust = connection, trust
        self._number = secrets.token_bytes(_NUMBER_BYTES)
        connection.send({"is": _PROTOCOL, "number": self._number.hex(), **trust.invitation()})

    def advance(self) -> bool:
        """Return whether the other end is trusted from now on."""
        answer = self._connection.take()
        if answer is None:
            return False
        numbers = self._number + _bytes_in(answer, "number")
        secret = self._trust.secret({})
        if not _is_proof(answer, secret, b"joins", numbers):
            self._connection.send({"refused": "it does not know the secret of the job"})
            raise AuthenticationError("it does not know the secret of the job")
        self._connection.send({"proof": _proof(secret, b"receives", numbers).hex()})
        self._connection.authenticate_by(_proof(secret, b"session", numbers), b"down", b"up")
        return True


class ClientHandshake:
    """The end of another process, until rank 0 and it trust each other."""

    def __init__(self, connection: SignedConnection, trust: Trust) -> None:
        self._connection, self._trust = connection, trust
        self._numbers = b""
        self.secret = b""  # as soon as it is known

    def advance(self) -> bool:
        """Return whether rank 0 is trusted from now on, and trusts."""
        message = self._connection.take()
        if message is None:
            return False
        if not self._numbers:
            self._answer(message)
            return False
        if "refused" in message:
            raise AuthenticationError("it was refused: the secrets of the two differ")
        if not _is_proof(message, self.secret, b"receives", self._numbers):
            raise AuthenticationError(
                "the process that answers does not know the secret of the job"
            )
        key = _proof(self.secret, b"session", self._numbers)
        self._connection.authenticate_by(key, b"up", b"down")
        return True

    def _answer(self, challenge: Message) -> None:
        if challenge.get("is") != _PROTOCOL:
            raise AuthenticationError("what answers is no rank")
        number = secrets.token_bytes(_NUMBER_BYTES)
        self._numbers = _bytes_in(challenge, "number") + number
        self.secret = self._trust.secret(challenge)
        proof = _proof(self.secret, b"joins", self._numbers)
        self._connection.send({"number": number.hex(), "proof": proof.hex()})


def derived(secret: bytes, what: str) -> str:
    """Return a secret for another purpose, as 32 hexadecimal digits. Pure."""
    return hmac.digest(secret, what.encode(), "sha256").hex()[:32]


def _proof(secret: bytes, role: bytes, numbers: bytes) -> bytes:
    return hmac.digest(secret, role + b"\0" + numbers, "sha256")


def _is_proof(message: Message, secret: bytes, role: bytes, numbers: bytes) -> bool:
    return hmac.compare_digest(_bytes_in(message, "proof"), _proof(secret, role, numbers))


def _bytes_in(message: Message, name: str) -> bytes:
    try:
        return bytes.fromhex(str(message.get(name, "")))
    except ValueError:
        raise AuthenticationError("what answers is no rank") from None
