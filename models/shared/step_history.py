"""Write the loss of each step, to draw it or to compare two runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras


class StepHistory(keras.callbacks.Callback):
    """Write a line of JSON for each step: `{"epoch": 0, "step": 7, "loss": 2.1, ...}`.

    Keras gives means over the epoch so far, m_k after k batches. A line has the value of its batch,

        v_k = k m_k - (k - 1) m_(k-1),

    for which all batches count alike, so that of a shorter last one is only nearly its own.

    Args:
        path: File that lines are added to; its folder is made.
    """

    def __init__(self, path: str | Path) -> None:
        super().__init__()
        self._path = Path(path)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._epoch = 0
        self._sums: dict[str, float] = {}
        self._lines: list[str] = []

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Begin the means anew. Local."""
        self._epoch = epoch
        self._sums = {}

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


def read_steps(path: str | Path, name: str = "loss") -> list[float]:
    """Return one value of each step of a file, in the order of the steps. Local.

    Args:
        path: Written by `StepHistory`.
        name: Of the loss or metric.
    """
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    return [json.loads(line)[name] for line in lines]
