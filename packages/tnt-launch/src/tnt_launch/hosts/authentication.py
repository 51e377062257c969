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

import contextlib
import hmac
import os
import secrets
import stat
from collections.abc import Callable
from pathlib import Path

from tnt_launch.errors import LaunchError
from tnt_launch.hosts.channel import Channel, Frame, FrameAuthenticator
from tnt_launch.planning.settings import Settings
from tnt_launch.planning.variables import JOB_SECRET


def user_secret(settings: Settings) -> str:
    """Return the secret: of the settings, else of the file, which is made if there is none."""
    stated = settings.get(JOB_SECRET)
    if stated is not None:
        return stated
    path = _path()
    try:
        _make(path)
        return _read(path)
    except OSError as error:
        raise LaunchError(
            f"the secret of the job cannot be used: {path}: {error.strerror}. Set TNT_JOB_SECRET "
            "to the same 16 or more random characters on all hosts."
        ) from error


def _path() -> Path:
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return Path(home) / "tarantella" / "secret"


def _make(path: Path) -> None:
    """Create the file, with its whole content, unless there is one."""
    if path.exists():
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = path.with_name(f".secret-{secrets.token_hex(8)}")
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(secrets.token_hex(32) + "\n")
    try:
        with contextlib.suppress(FileExistsError):  # another host was quicker
            os.link(part, path)
    finally:
        part.unlink()


def _read(path: Path) -> str:
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW)) as file:
        status = os.fstat(file.fileno())
        is_alone = stat.S_IMODE(status.st_mode) & 0o077 == 0
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or not is_alone:
            raise LaunchError(
                f"the secret in {path} is not trusted, since other users can read or write it. "
                f"Run: chmod 600 {path}"
            )
        text = file.read(4096).strip()
    if len(text) < 16:
        raise LaunchError(f"the secret in {path} is shorter than 16 characters: remove the file.")
    return text


_NUMBER_SIZE = 32


class Server:
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
        self._channel.authenticate_by(FrameAuthenticator(key, has_connected=False))
        return True


class Client:
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
        self._channel.authenticate_by(FrameAuthenticator(key, has_connected=True))
        return True


def _proof(secret: bytes, role: bytes, first: bytes, second: bytes) -> bytes:
    return hmac.digest(secret, role + b"\0" + first + second, "sha256")
