"""The secret by which this user's launchers on several hosts know each other."""

# It is what `TNT_JOB_SECRET` says, or else the content of a file in the user's home, which clusters
# share among their hosts. The file is made when it is needed first, for its owner alone.

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path

from tnt_launch.errors import LaunchError
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
            f"there is no secret for the hosts of the job: {path}: {error.strerror}. Set "
            f"TNT_JOB_SECRET to the same 16 or more random characters on all hosts."
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
                f"the secret in {path} is not trusted, since others may read or write it. Run: "
                f"chmod 600 {path}"
            )
        text = file.read(4096).strip()
    if len(text) < 16:
        raise LaunchError(f"the secret in {path} is shorter than 16 characters: remove the file.")
    return text
