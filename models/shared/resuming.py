"""Backups of a training, and how a run that was killed goes on from its last one.

The run ends with the very bits of one that was not interrupted. On ranks that is the work of
`keras.callbacks.BackupAndRestore`, which Tarantella makes exact. Plain Keras has `SerialBackup`.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np

from models.shared.distribution import Distribution, ParallelMethods


class Resumption(NamedTuple):
    """What `fit` needs in order to go on.

    Attributes:
        callbacks: For `fit`.
        initial_epoch: For `fit`.
    """

    callbacks: list[keras.callbacks.Callback]
    initial_epoch: int


def prepare_to_resume(
    distribution: Distribution,
    model: keras.Model,
    training_data: Iterable[Any],
    folder: str | Path | None,
    *,
    resume: bool,
    save_freq: int | str = "epoch",
    delete_at_end: bool = True,
) -> Resumption:
    """Back up a training from now on, after going back to the last backup if asked to. Local.

    Args:
        distribution: The ranks.
        model: Compiled.
        training_data: As it will be given to `fit`, never read so far. All that is random in it
            has a seed.
        folder: Holds the backup, and nothing else; None: no backups.
        resume: Whether to go on from a backup that is there.
        save_freq: "epoch", or steps between backups, for ranks.
        delete_at_end: Whether the backup goes when the training has ended.

    Raises:
        SystemExit: If there is a backup and `resume` is False.
    """
    if folder is None:
        return Resumption([], 0)
    path = Path(folder)
    if not resume and distribution.is_master and path.is_dir() and any(path.iterdir()):
        raise SystemExit(
            f"{path} holds the backup of a training that has not ended: go on with --resume, or "
            "remove that folder to begin anew."
        )
    if distribution.method is ParallelMethods.TNT:
        backup = keras.callbacks.BackupAndRestore(
            str(path), save_freq=save_freq, delete_checkpoint=delete_at_end
        )
        return Resumption([backup], 0)
    serial = SerialBackup(path, delete_at_end=delete_at_end)
    return Resumption([serial], serial.restore(model, training_data))


class SerialBackup(keras.callbacks.History):
    """After each epoch, write the state of a plain Keras model to one file, and the history.

    It is the `History` that `fit` returns, so that this goes on as well. The file is renamed into
    place: a process that dies while it writes leaves the one before.

    Args:
        folder: Made if needed.
        delete_at_end: Whether the folder goes when the training has ended.
    """

    def __init__(self, folder: Path, *, delete_at_end: bool = True) -> None:
        super().__init__()
        self._folder = folder
        self._file = folder / "backup.npz"
        self._delete_at_end = delete_at_end
        self._saved: dict[str, Any] = {"epoch": [], "history": {}}

    def restore(self, model: keras.Model, training_data: Iterable[Any]) -> int:
        """Put back what the file holds, if there is one, and return the epochs that are over.

        Epochs of the data that are over are begun once more, which gives shuffles of a dataset the
        state that they had. Local.

        Args:
            model: Compiled.
            training_data: Never read so far.
        """
        if not self._file.is_file():
            return 0
        with np.load(self._file) as arrays:
            self._saved = json.loads(str(arrays["progress"]))
            variables = variables_of(model)
            if len(arrays.files) != len(variables) + 1:
                raise ValueError(
                    f"{self._file} is of another model: it holds {len(arrays.files) - 1} variables "
                    f"and the model has {len(variables)}. Use another --model_dir."
                )
            for number, variable in enumerate(variables):
                variable.assign(arrays[f"v{number}"])
        finished = len(self._saved["epoch"])
        for _ in range(finished):
            iter(training_data)
        return finished

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        """Go on with the history of the file. Local."""
        super().on_train_begin(logs)
        self.epoch = list(self._saved["epoch"])
        self.history = {name: list(values) for name, values in self._saved["history"].items()}

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Write the backup. Local."""
        super().on_epoch_end(epoch, logs)
        history = {name: list(map(float, values)) for name, values in self.history.items()}
        self._saved = {"epoch": list(self.epoch), "history": history}
        values: dict[str, Any] = {
            f"v{n}": keras.ops.convert_to_numpy(one)
            for n, one in enumerate(variables_of(self.model))
        }
        self._folder.mkdir(parents=True, exist_ok=True)
        temporary = self._folder / "backup.part"
        with temporary.open("wb") as file:
            np.savez(file, progress=json.dumps(self._saved), **values)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._file)

    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None:
        """Delete the backup. Local."""
        if self._delete_at_end:
            shutil.rmtree(self._folder, ignore_errors=True)


def variables_of(model: keras.Model) -> list[Any]:
    """Return all variables that decide how a training goes on: weights, seeds, optimizer. Local.

    Args:
        model: Compiled.
    """
    model.optimizer.build(model.trainable_variables)
    return [*model.variables, *model.optimizer.variables]
