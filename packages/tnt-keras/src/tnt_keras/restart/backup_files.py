"""The files of a backup: the last one, and perhaps the one before it."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
from collections.abc import Callable
from typing import Any

from tnt_keras.calls.files import read_from_master, write_atomically
from tnt_keras.calls.messages import allgather_json
from tnt_keras.calls.together import together
from tnt_keras.process.rank import MASTER_RANK, is_master_rank, logger
from tnt_keras.restart.container import DamagedError, read_container, write_container

_LATEST, _PREVIOUS = "latest.tnt_backup", "previous.tnt_backup"
_OF_KERAS = "latest.weights.h5"


class BackupFiles:
    """The backups in one folder, which the master rank writes and others need not see. Collective.

    A file is written under another name first: a run that is killed leaves the old or the new one.
    """

    def __init__(self, folder: str | os.PathLike[str], keeps_previous: bool) -> None:
        if "://" in os.fsdecode(folder):
            raise ValueError(
                f"`backup_dir` must be a folder that the master rank can rename files in, since a "
                f"backup is to be whole at any time. Received: backup_dir={folder!r}."
            )
        self._folder = pathlib.Path(folder)
        self._keeps_previous = keeps_previous

    def prepare(self) -> None:
        """Make the folder, and remove what a killed run has left half written."""

        def prepare() -> None:
            self._folder.mkdir(parents=True, exist_ok=True)
            for half_written in self._folder.glob(f".{_LATEST}.*"):
                shutil.rmtree(half_written)

        self._on_master("write", prepare)

    def read(self) -> Any:
        """Return the last whole backup, None without any; refuse one of Keras' own."""
        names = (_LATEST, _PREVIOUS, _OF_KERAS) if is_master_rank() else ()
        found = [name for name in names if (self._folder / name).exists()]
        found = allgather_json("backups", found)[MASTER_RANK]
        if found == [_OF_KERAS]:
            raise ValueError(
                f"The backup in {self._folder} is one of plain Keras, which knows neither the "
                "position in the data nor the state of callbacks. Remove the folder, or load "
                f"{_OF_KERAS} by `model.load_weights` and pass another `backup_dir`."
            )
        errors = []
        for name in (name for name in found if name != _OF_KERAS):
            try:
                backup = read_from_master(self._folder / name, _read)
            except (DamagedError, OSError) as error:
                errors.append(f"{name}: {error}")
                continue
            if name != _LATEST:
                logger.warning(
                    "%s The run continues from the backup before it, %s.",
                    " ".join(errors) or f"{_LATEST} is missing.",
                    self._folder / name,
                )
            return backup
        if errors:
            raise ValueError(
                f"The backup in {self._folder} is damaged, so that the run cannot be continued. "
                f"{' '.join(errors)} Remove the folder to begin anew. With double_checkpoint=True "
                "the backup before the last one is kept, too."
            )
        return None

    def write(self, backup: Any) -> None:
        """Replace the last backup."""
        latest = self._folder / _LATEST

        def write_to(path: pathlib.Path) -> None:
            with open(path, "wb") as stream:
                write_container(stream, backup)
                stream.flush()
                os.fsync(stream.fileno())  # else a computer that fails may have renamed a torn file
            if self._keeps_previous and latest.exists():
                os.replace(latest, self._folder / _PREVIOUS)

        write_atomically(latest, write_to, overwrite=True, on_all_ranks=False)

    def delete(self) -> None:
        """Remove the backups, and the folder if nothing else is in it."""

        def delete() -> None:
            for name in (_PREVIOUS, _LATEST):  # a run that is killed meanwhile ends once more
                (self._folder / name).unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                self._folder.rmdir()

        self._on_master("delete", delete)

    def _on_master(self, what: str, action: Callable[[], None]) -> None:
        subject = os.fspath(self._folder)
        together(what, action if is_master_rank() else lambda: None, subject=subject)


def _read(path: str | os.PathLike[str]) -> Any:
    with open(path, "rb") as stream:
        return read_container(stream)
