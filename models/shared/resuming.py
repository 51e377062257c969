"""Backups of a training, and how a run that was killed goes on from its last one.

The run ends with the very bits of one that was not interrupted. On ranks that is the work of
`keras.callbacks.BackupAndRestore`, which Tarantella makes exact. Plain Keras has `SerialBackup`.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from models.shared.atomic_write import write_atomically
from models.shared.distribution import Distribution, ParallelMethods

SERIAL_FILE = "backup.npz"
"""Backup of plain Keras; Tarantella's has files of other names."""
SERIAL_SCRATCH = "backup.part"
SETTINGS_FILE = "backup_settings.json"
"""Beside the folder of the backup: the flags that it was made with."""


logger = logging.getLogger("trainer")


class Resumption(NamedTuple):
    """What `fit` needs in order to go on.

    Attributes:
        callbacks: For `fit`.
        initial_epoch: For `fit`.
        folder: Of the backup; None: there is none.
    """

    callbacks: list[keras.callbacks.Callback]
    initial_epoch: int
    folder: Path | None

    def discard_backup(self, history: keras.callbacks.History, epochs: int) -> None:
        """Remove the backup, after what the training gives has been saved. On one rank. Local.

        One that is from later epochs than the training was to have is kept.

        Args:
            history: That `fit` has returned.
            epochs: As given to `fit`.
        """
        is_of_later = bool(history.epoch) and history.epoch[-1] >= epochs
        if self.folder is not None and not is_of_later:
            shutil.rmtree(self.folder, ignore_errors=True)


def prepare_to_resume(
    distribution: Distribution,
    model: keras.Model,
    training_data: tf.data.Dataset,
    folder: str | Path | None,
    *,
    settings: Mapping[str, Any],
    resume: bool,
    save_freq: int | str = "epoch",
) -> Resumption:
    """Back up a training from now on, after going back to the last backup if asked to. Local.

    Args:
        distribution: The ranks.
        model: Compiled.
        training_data: As it will be given to `fit`, of a known number of batches, never read so
            far. All that is random in it has a seed.
        folder: Holds the backup, and nothing else; None: no backups.
        settings: Flags that decide on results, by name; plain values.
        resume: Whether to go on from a backup that is there.
        save_freq: "epoch", or steps between backups, for ranks.

    Raises:
        SystemExit: If there is a backup and `resume` is False; if the backup is one of plain Keras
            and ranks shall go on from it, or the other way round; if settings have changed.
    """
    if folder is None:
        return Resumption([], 0, None)
    path = Path(folder)
    if distribution.is_master and path.is_dir() and any(path.iterdir()):
        _require_usable(path, distribution.method, resume=resume)
        _require_same_settings(path.with_name(SETTINGS_FILE), settings)
    elif distribution.is_master:
        content = json.dumps(dict(settings), indent=1).encode()
        write_atomically(path.with_name(SETTINGS_FILE), content)
    if distribution.method is ParallelMethods.TNT:
        backup = keras.callbacks.BackupAndRestore(
            str(path), save_freq=save_freq, delete_checkpoint=False
        )
        return Resumption([backup], 0, path)
    serial = SerialBackup(path)
    return Resumption([serial], serial.restore(model, training_data), path)


def _require_usable(path: Path, method: ParallelMethods, *, resume: bool) -> None:
    if not resume:
        raise SystemExit(
            f"{path} holds the backup of a training that has not ended: go on with --resume, or "
            "remove that folder to begin anew."
        )
    names = {entry.name for entry in path.iterdir()}
    is_serial = method is ParallelMethods.NONE
    of_other_kind = names - {SERIAL_FILE, SERIAL_SCRATCH} if is_serial else names & {SERIAL_FILE}
    if of_other_kind:
        ways = ("--distribute=tnt", "--distribute=none")
        of_backup, other = ways if is_serial else reversed(ways)
        raise SystemExit(
            f"{path} holds the backup of a training with {of_backup}, which {other} cannot read: "
            "go on as it began, or name another --model_dir."
        )


def _require_same_settings(file: Path, settings: Mapping[str, Any]) -> None:
    try:
        saved = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:  # nothing to compare with
        return
    changed = [
        f"--{name} was {saved[name]} and is {value}"
        for name, value in settings.items()
        if name in saved and saved[name] != value
    ]
    if changed:
        raise SystemExit(
            f"The training in {file.parent} began with other flags: {', '.join(changed)}. Go on "
            "as it began, or name another --model_dir."
        )


class SerialBackup(keras.callbacks.History):
    """After each epoch, write the state of a plain Keras model to one file, and the history.

    It is the `History` that `fit` returns, so that this goes on as well. The file is renamed into
    place: a process that dies while it writes leaves the one before.

    Args:
        folder: Made if needed.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._file = folder / SERIAL_FILE
        self._num_batches = 0
        self._saved: dict[str, Any] = {"epoch": [], "history": {}}

    def restore(self, model: keras.Model, training_data: tf.data.Dataset) -> int:
        """Put back what the file holds, if there is one, and return the epochs that are over.

        Epochs of the data that are over are begun once more, which gives shuffles of a dataset the
        state that they had. Local.

        Args:
            model: Compiled.
            training_data: Never read so far, of a known number of batches.

        Raises:
            ValueError: If the file is of another model or another number of batches.
        """
        self._num_batches = int(training_data.cardinality())
        if not self._file.is_file():
            return 0
        self._assign_saved(variables_of(model))
        if self._num_batches != self._saved["num_batches"]:
            raise ValueError(
                f"{self._file} is of a training with {self._saved['num_batches']} steps in an "
                f"epoch, and now there are {self._num_batches}. Use the same data and batch size, "
                "or another --model_dir."
            )
        finished = len(self._saved["epoch"])
        for _ in range(iterators_of_epochs(finished)):
            iter(training_data)
        return finished

    def _assign_saved(self, variables: list[Any]) -> None:
        saved = self._read()
        if len(saved) != len(variables):
            raise ValueError(
                f"{self._file} is of another model: it holds {len(saved)} variables and the model "
                f"has {len(variables)}. Use another --model_dir."
            )
        for variable, value in zip(variables, saved, strict=True):
            if value.shape != tuple(variable.shape):
                raise ValueError(
                    f"{self._file} is of another model: {variable.path} is {value.shape} there "
                    f"and {tuple(variable.shape)} in the model. Use another --model_dir."
                )
        for variable, value in zip(variables, saved, strict=True):
            variable.assign(value)

    def _read(self) -> list[np.ndarray]:
        try:
            with self._file.open("rb") as file, np.load(file) as arrays:
                self._saved = json.loads(str(arrays["progress"]))
                return [arrays[f"v{number}"] for number in range(len(arrays.files) - 1)]
        except (zipfile.BadZipFile, ValueError, KeyError, EOFError) as error:
            raise ValueError(
                f"{self._file} is damaged: copy it again, or remove it to begin anew."
            ) from error

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        """Go on with the history of the file. Local."""
        super().on_train_begin(logs)
        self.epoch = list(self._saved["epoch"])
        self.history = {name: list(values) for name, values in self._saved["history"].items()}

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Write the backup. Local."""
        super().on_epoch_end(epoch, logs)
        history = {name: list(map(float, values)) for name, values in self.history.items()}
        self._saved = {
            "epoch": list(self.epoch),
            "history": history,
            "num_batches": self._num_batches,
        }
        values: dict[str, Any] = {
            f"v{n}": one.numpy() for n, one in enumerate(variables_of(self.model))
        }
        self._folder.mkdir(parents=True, exist_ok=True)
        temporary = self._folder / SERIAL_SCRATCH
        with temporary.open("wb") as file:
            np.savez(file, progress=json.dumps(self._saved), **values)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._file)

    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None:
        """Warn if the backup is of more epochs than were asked for. Local."""
        finished, wanted = len(self._saved["epoch"]), self.params["epochs"]
        if finished > wanted:
            logger.warning(
                "Nothing is trained, and %s is kept: it is from epoch %d, and the training is to "
                "end after epoch %d.",
                self._file,
                finished,
                wanted,
            )


def iterators_of_epochs(number: int) -> int:
    """Return how many iterators `fit` makes of a dataset in some epochs. Local.

    It makes another one at the end of an epoch that may not be read, and releases of Keras differ;
    so it is measured: each iterator of a dataset gives another random number.

    Args:
        number: Of epochs.
    """
    if number == 0:
        return 0
    numbers = tf.data.Dataset.random(seed=1, rerandomize_each_iteration=True).take(1).batch(1)
    reader = _Reader()
    reader.compile(run_eagerly=True)
    reader.fit(numbers, epochs=number + 1, verbose=0, shuffle=False)
    again = tf.data.Dataset.random(seed=1, rerandomize_each_iteration=True).take(1)
    count = 0
    while int(next(iter(again))) != reader.last:
        count += 1
    return count


class _Reader(keras.Model):
    """Remembers the last number that it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.built = True
        self.last = 0

    def train_step(self, data: Any) -> dict[str, Any]:
        """Read a batch. Local."""
        self.last = int(data[0])
        return {"last": 0.0}


def variables_of(model: keras.Model) -> list[Any]:
    """Return all variables that decide how a training goes on: weights, seeds, optimizer. Local.

    Args:
        model: Compiled.
    """
    if not model.optimizer.built:  # a second time, that of float16 would scale anew
        model.optimizer.build(model.trainable_variables)
    return [*model.variables, *model.optimizer.variables]
