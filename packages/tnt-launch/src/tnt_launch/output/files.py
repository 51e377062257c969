"""Files with all that the ranks write: `--output-dir`."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
from collections.abc import Collection
from typing import Literal

from tnt_launch.errors import LaunchError
from tnt_launch.log import LOGGER

Stream = Literal["stdout", "stderr"]
STREAMS: tuple[Stream, ...] = ("stdout", "stderr")
_OURS = re.compile(r"rank-\d+\.(stdout|stderr)\.log")
_WRITE = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class OutputFiles(contextlib.AbstractContextManager["OutputFiles"]):
    """One file for each rank and stream, `rank-3.stdout.log`; a context manager."""

    # Numbers have as many digits as the largest, so that names are in the order of ranks. Files of
    # an earlier job are removed first, unless this one goes on writing them. The folder is locked
    # meanwhile: two jobs do not share it.

    def __init__(self, folder: str, ranks: Collection[int], keeps: bool = False) -> None:
        self._digits = len(str(max(ranks)))
        self._broken: set[str] = set()
        try:
            os.makedirs(folder, exist_ok=True)
            self._fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise LaunchError(f"--output-dir: {folder}: {error.strerror}.") from error
        try:
            self._lock(folder)
            if not keeps:
                self._make_files(ranks)
        except BaseException as error:
            os.close(self._fd)
            if isinstance(error, OSError):
                raise LaunchError(
                    f"--output-dir: {os.path.join(folder, error.filename or '')}: {error.strerror}."
                ) from error
            raise

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def write(self, rank: int, stream: Stream, data: bytes) -> None:
        """Append what a rank wrote; where that fails, it is told once, and the job goes on."""
        name = self._name(rank, stream)
        try:
            # Open only now: there may be more ranks than files that a process may have open.
            fd = os.open(name, _WRITE | os.O_CREAT, 0o666, dir_fd=self._fd)
            with contextlib.closing(os.fdopen(fd, "wb", buffering=0)) as file:
                while data:
                    data = data[file.write(data) :]
        except OSError as error:
            if name not in self._broken:
                self._broken.add(name)
                LOGGER.warning(
                    "output of rank %d is lost: %s: %s [output-lost]", rank, name, error.strerror
                )

    def _name(self, rank: int, stream: Stream) -> str:
        return f"rank-{rank:0{self._digits}}.{stream}.log"

    def _lock(self, folder: str) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LaunchError(
                f"--output-dir: {folder} belongs to a running job. Name another folder."
            ) from None
        except OSError:
            pass  # not every file system has locks

    def _make_files(self, ranks: Collection[int]) -> None:
        for name in os.listdir(self._fd):
            if _OURS.fullmatch(name):
                self._remove(name)
        for rank in ranks:
            for stream in STREAMS:
                name = self._name(rank, stream)
                os.close(os.open(name, _WRITE | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=self._fd))

    def _remove(self, name: str) -> None:
        found = os.stat(name, dir_fd=self._fd, follow_symlinks=False)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            raise LaunchError(
                f"--output-dir: {name} already exists, and is not your own file. Name another "
                "folder."
            )
        os.unlink(name, dir_fd=self._fd)
