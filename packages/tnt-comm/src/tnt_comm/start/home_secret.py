"""The secret in the user's home, where hosts share that and nothing else; the launcher's, too."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path

from tnt_comm.errors import CommError

_LEAST_CHARACTERS = 16


def home_secret() -> str:
    """Return the secret in `~/.config/tarantella/secret`, which is made if there is none. Local."""
    path = _path()
    try:
        _make(path)
        return _read(path)
    except OSError as error:
        raise CommError(
            f"Ranks cannot use the secret by which they recognise each other: {path}: "
            f"{error.strerror}. Set TNT_JOB_SECRET to the same 16 or more random characters for "
            "all ranks."
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
        with contextlib.suppress(FileExistsError):  # another rank was quicker
            os.link(part, path)
    finally:
        part.unlink()


def _read(path: Path) -> str:
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW)) as file:
        status = os.fstat(file.fileno())
        is_alone = stat.S_IMODE(status.st_mode) & 0o077 == 0
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or not is_alone:
            raise CommError(
                f"The secret in {path} is not trusted, since other users can read or write it. "
                f"Run: chmod 600 {path}"
            )
        text = file.read(4096).strip()
    if len(text) < _LEAST_CHARACTERS:
        raise CommError(f"The secret in {path} is shorter than 16 characters: remove the file.")
    return text
