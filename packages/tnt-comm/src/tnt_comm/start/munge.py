"""Credentials of MUNGE, by which all nodes of SLURM know a user: `munge` and `unmunge`."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence

from tnt_comm.errors import CommError
from tnt_comm.start.authentication import AuthenticationError
from tnt_comm.start.signed_connection import Message

_COMMAND_S = 20.0
_FIRST_OF_CREDENTIALS = 8  # exit codes of `unmunge` from here on say what is wrong with one


def is_there() -> bool:
    """Return whether this host has the commands, and answers to them. Local."""
    if shutil.which("munge") is None or shutil.which("unmunge") is None:
        return False
    return _run(["munge", "--no-input"], "").returncode == 0


class Munge:
    """Rank 0 sends the secret in credentials that only its user can read, and that name the job."""

    def __init__(self, job: str) -> None:
        self._job, self._drawn = job, secrets.token_hex(16)

    def check(self, connection: socket.socket) -> None:
        """Accept all: proofs show who they are."""

    def invitation(self) -> Mapping[str, str]:
        """Return a credential; each can be read once."""
        made = _run(["munge", f"--restrict-uid={os.geteuid()}"], f"{self._job}\n{self._drawn}")
        if made.returncode != 0:
            raise CommError(f"munge issued no credential: {made.stderr.strip()}")
        return {"credential": made.stdout.strip()}

    def secret(self, challenge: Message) -> bytes:
        """Return the secret: that of a credential of this user for this job."""
        if not challenge:
            return self._drawn.encode()
        told = str(challenge.get("credential", ""))
        read = _run(["unmunge", "--numeric", "--keys=UID"], told)
        if read.returncode >= _FIRST_OF_CREDENTIALS:
            raise AuthenticationError(f"its credential is not for this user: {read.stderr.strip()}")
        if read.returncode != 0:
            raise CommError(f"unmunge cannot read the credential: {read.stderr.strip()}")
        heading, _, text = read.stdout.partition("\n\n")
        job, _, secret = text.partition("\n")
        if heading.split()[1:] != [str(os.geteuid())] or job != self._job:
            raise AuthenticationError("its credential belongs to another user or job")
        return secret.strip().encode()


def _run(command: Sequence[str], text: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=_COMMAND_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise CommError(f"`{command[0]}` did not answer within {_COMMAND_S:g} s") from None
