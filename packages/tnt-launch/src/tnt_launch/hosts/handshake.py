"""How two launchers prove to each other that they know the secret of a job.

    the one that was connected to          the one that has connected
    challenge(its random number)   ----->
                                   <-----  answer(its random number, proof)
    welcome(proof)                 ----->

A proof is the HMAC-SHA-256 (RFC 2104) under the secret of the role and both numbers, so that it
cannot be used again, nor be sent back. Later frames carry the HMAC, under a key that is made the
same way, of their direction, their number and their bytes. Nothing is encrypted.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Callable

from tnt_launch.hosts.channel import Channel
from tnt_launch.hosts.frames import Frame, SessionSeal

_NUMBER_SIZE = 32


class Host:
    """The end that was connected to. Not thread-safe."""

    def __init__(self, channel: Channel, secret: bytes, refuse: Callable[[str], None]) -> None:
        """Send the challenge; `refuse` is called if the other end does not know the secret."""
        self._channel, self._secret, self._refuse = channel, secret, refuse
        self._number = os.urandom(_NUMBER_SIZE)
        channel.send(Frame("challenge", 0, {}, self._number))

    def take(self, frame: Frame) -> bool:
        """Deal with a frame, and return whether the other end is trusted from now on."""
        number, proof = frame.body[:_NUMBER_SIZE], frame.body[_NUMBER_SIZE:]
        expected = _proof(self._secret, b"joins", self._number, number)
        if frame.kind != "answer" or not hmac.compare_digest(proof, expected):
            self._refuse("it does not know the secret of the job")
            return False
        welcome = _proof(self._secret, b"receives", self._number, number)
        self._channel.send(Frame("welcome", 0, {}, welcome))
        key = _proof(self._secret, b"session", self._number, number)
        self._channel.use(SessionSeal(key, has_connected=False))
        return True


class Guest:
    """The end that has connected. Not thread-safe."""

    def __init__(self, channel: Channel, secret: bytes, refuse: Callable[[str], None]) -> None:
        self._channel, self._secret, self._refuse = channel, secret, refuse
        self._own = os.urandom(_NUMBER_SIZE)
        self._number = b""

    def take(self, frame: Frame) -> bool:
        """Deal with a frame, and return whether the other end is trusted from now on."""
        if frame.kind == "challenge" and not self._number and len(frame.body) == _NUMBER_SIZE:
            self._number = frame.body
            proof = _proof(self._secret, b"joins", self._number, self._own)
            self._channel.send(Frame("answer", 0, {}, self._own + proof))
            return False
        expected = _proof(self._secret, b"receives", self._number, self._own)
        if frame.kind != "welcome" or not hmac.compare_digest(frame.body, expected):
            self._refuse("it does not know the secret of the job")
            return False
        key = _proof(self._secret, b"session", self._number, self._own)
        self._channel.use(SessionSeal(key, has_connected=True))
        return True


def _proof(secret: bytes, role: bytes, first: bytes, second: bytes) -> bytes:
    return hmac.digest(secret, role + b"\0" + first + second, "sha256")
