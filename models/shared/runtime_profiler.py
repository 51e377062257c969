"""Print or write how long steps and epochs take."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras


class RuntimeProfiler(keras.callbacks.Callback):
    """Record every few steps their runtime beside the logs, and each epoch its own.

    Lines begin with `Iteration` or `Epoch`, then come pairs `name = value`:

        Iteration epoch = 0, iteration = 10, iter_runtime_s = 0.0312, loss = 6.9078
        Epoch epoch = 0, size = 256, niterations = 5005, epoch_runtime_s = 161.2034, loss = 6.1

    Args:
        batch_size: Samples of a step, of all ranks together.
        log_file_path: File that lines are added to; its folder is made. By default they are
            printed.
        logging_freq: Steps between two records.
        print_freq: Steps after which records are printed; the rest follow at the end of the epoch.
    """

    def __init__(
        self,
        batch_size: int,
        log_file_path: str | Path | None = None,
        logging_freq: int = 10,
        print_freq: int = 30,
    ) -> None:
        super().__init__()
        if min(batch_size, logging_freq, print_freq) < 1:
            raise ValueError(
                "`batch_size`, `logging_freq` and `print_freq` must be at least 1. Received: "
                f"batch_size={batch_size}, logging_freq={logging_freq}, print_freq={print_freq}."
            )
        self.batch_size = batch_size
        self.logging_freq = logging_freq
        self.print_freq = print_freq
        self._path = None if log_file_path is None else Path(log_file_path)
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        self._lines: list[str] = []
        self._epoch = 0
        self._num_iterations = 0
        self._epoch_begin_s = self._step_begin_s = self._last_end_s = 0.0

    def get_backup_state(self) -> list[Any]:
        """Return the seconds of the epoch so far and what is not printed. Local."""
        epoch_s = self._last_end_s - self._epoch_begin_s
        return [self._epoch, self._num_iterations, epoch_s, list(self._lines)]

    def set_backup_state(self, state: list[Any]) -> None:
        """Go on with the epoch of a backup. Local."""
        self._epoch, self._num_iterations, epoch_s, self._lines = state
        self._last_end_s = time.perf_counter()
        self._epoch_begin_s = self._last_end_s - epoch_s

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Start the clock of an epoch. Local."""
        self._epoch, self._num_iterations = epoch, 0
        self._epoch_begin_s = self._last_end_s = time.perf_counter()

    def on_train_batch_begin(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Start the clock of a step. Local."""
        self._step_begin_s = time.perf_counter()

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Record a step, and print records if it is time. Local."""
        self._last_end_s = time.perf_counter()
        self._num_iterations += 1
        if self._num_iterations % self.logging_freq == 0:
            runtime_s = self._last_end_s - self._step_begin_s
            values = {
                "epoch": self._epoch,
                "iteration": self._num_iterations,
                "iter_runtime_s": runtime_s,
                **(logs or {}),
            }
            self._lines.append(_line("Iteration", values))
        if self._num_iterations % self.print_freq == 0:
            self._print()

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Print the records that are left, and the epoch. Local."""
        values = {
            "epoch": epoch,
            "size": self.batch_size,
            "niterations": self._num_iterations,
            "epoch_runtime_s": self._last_end_s - self._epoch_begin_s,
            **(logs or {}),
        }
        self._lines.append(_line("Epoch", values))
        self._print()

    def _print(self) -> None:
        text = "".join(f"{line}\n" for line in self._lines)
        self._lines.clear()
        if self._path is None:
            sys.stdout.write(text)
            sys.stdout.flush()
            return
        with self._path.open("a", encoding="utf-8") as file:
            file.write(text)


def _line(prefix: str, values: Mapping[str, Any]) -> str:
    pairs = (
        f"{name} = {value if isinstance(value, int) else format(float(value), '.4f')}"
        for name, value in values.items()
    )
    return f"{prefix} {', '.join(pairs)}"
