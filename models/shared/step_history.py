"""Write the loss of each step, to draw it or to compare two runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras

from models.shared.atomic_write import write_atomically


class StepHistory(keras.callbacks.Callback):
    """Write a line of JSON for each step: `{"epoch": 0, "step": 7, "loss": 2.1, ...}`.

    Keras gives means over the epoch so far, m_k after k batches. A line has the value of its batch,

        v_k = k m_k - (k - 1) m_(k-1),

    for which all batches count alike, so that of a shorter last one is only nearly its own.

    Args:
        path: File that lines are added to; its folder is made. Lines of epochs that are trained
            again go: of a run that was killed after its last backup, or of an earlier run.
    """

    def __init__(self, path: str | Path) -> None:
        super().__init__()
        self._path = Path(path)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._epoch = 0
        self._sums: dict[str, float] = {}
        self._lines: list[str] = []
        self._has_begun = False

    def get_backup_state(self) -> list[Any]:
        """Return what is known of the epoch, for a run that goes on from a backup. Local."""
        return [self._epoch, dict(self._sums), list(self._lines)]

    def set_backup_state(self, state: list[Any]) -> None:
        """Take over what was known. Local."""
        self._epoch, self._sums, self._lines = state

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        """Wait for the first epoch of a training. Local."""
        self._has_begun = False

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Begin the means anew; the first epoch replaces its lines and later ones. Local."""
        self._epoch, self._sums, self._lines = epoch, {}, []
        if not self._has_begun:
            _drop_lines(self._path, epoch)
        self._has_begun = True

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Note a step. Local."""
        sums = {name: (batch + 1) * float(mean) for name, mean in (logs or {}).items()}
        values = {name: total - self._sums.get(name, 0.0) for name, total in sums.items()}
        self._sums = sums
        self._lines.append(json.dumps({"epoch": self._epoch, "step": batch, **values}))

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Write the steps of the epoch. Local."""
        with self._path.open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in self._lines)
        self._lines.clear()


def _drop_lines(path: Path, first_epoch: int) -> None:
    if not path.is_file():
        return
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    try:
        kept = [line for line in lines if json.loads(line)["epoch"] < first_epoch]
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path} is no history of steps: name another file.") from None
    if len(kept) < len(lines):
        write_atomically(path, "".join(kept).encode())


def read_steps(path: str | Path, name: str = "loss") -> list[float]:
    """Return one value of each step of a file, in the order of the steps. Local.

    Args:
        path: Written by `StepHistory`.
        name: Of the loss or metric.
    """
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    return [json.loads(line)[name] for line in lines]
