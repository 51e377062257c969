"""How many samples a second a training takes, and how much of the time is communication."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import keras


class EpochTimes(NamedTuple):
    """Of one epoch.

    Attributes:
        runtime_s: From its begin to its end, validation included.
        samples_per_s: While it trained; without the first of several steps, which may build graphs
            or be proved.
        communication_share: Part of the time of the steps in which at least one exchange between
            ranks was under way, from 0 to 1; 0 without ranks.
        hidden_share: Part of the communication in which nobody waited for it, from 0 to 1.
    """

    runtime_s: float
    samples_per_s: float
    communication_share: float
    hidden_share: float


class _StepTimes(NamedTuple):
    """Seconds of one step, of the communication in it, and of that what was waited for."""

    runtime_s: float
    communication_s: float
    exposed_s: float


class TimeHistory(keras.callbacks.Callback):
    """Measure each epoch, print a line after it, and write it for TensorBoard.

        epoch 3: 161.2 s, 7958.1 samples/s, communication 8.1 % of steps, 92 % hidden

    Steps are clocked from begin to end of a batch, as in Tarantella's own report. The last batch
    counts as a whole one.

    Args:
        batch_size: Samples of a step, of all ranks together.
        logdir: Folder for TensorBoard; by default nothing is written.
        counters: Gives what communication has cost so far, `Distribution.counters`.
        unit: What `batch_size` counts.

    Attributes:
        epochs: The measurements so far.
    """

    def __init__(
        self,
        batch_size: int,
        logdir: str | Path | None = None,
        *,
        counters: Callable[[], Any] | None = None,
        unit: str = "samples",
    ) -> None:
        super().__init__()
        self.batch_size = batch_size
        self.unit = unit
        self.epochs: list[EpochTimes] = []
        self._logdir = logdir
        self._counters = counters or (lambda: None)
        self._writer: Any = None
        self._begin: tuple[float, Any] = (0.0, None)
        self._epoch_begin_s = 0.0
        self._steps: list[_StepTimes] = []

    def get_backup_state(self) -> list[tuple[float, ...]]:
        """Return what was measured, for a run that goes on from a backup. Local."""
        return [tuple(times) for times in self.epochs]

    def set_backup_state(self, state: list[tuple[float, float, float, float]]) -> None:
        """Take over what was measured before. Local."""
        self.epochs = [EpochTimes(*times) for times in state]

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Start the clock of an epoch. Local."""
        self._epoch_begin_s = time.perf_counter()
        self._steps = []

    def on_train_batch_begin(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Start the clock of a step. Local."""
        self._begin = (time.perf_counter(), self._counters())

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Add a step. Local."""
        begin_s, before = self._begin
        runtime_s = time.perf_counter() - begin_s
        if before is None:
            self._steps.append(_StepTimes(runtime_s, 0.0, 0.0))
        else:
            cost = self._counters() - before
            self._steps.append(_StepTimes(runtime_s, cost.communication_s, cost.exposed_s))

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Print the line, and write it for TensorBoard. Local."""
        times = self._measured()
        self.epochs.append(times)
        line = (
            f"epoch {epoch + 1}: {times.runtime_s:.1f} s, {times.samples_per_s:.1f} {self.unit}/s, "
            f"communication {100 * times.communication_share:.1f} % of steps"
        )
        if times.communication_share > 0:
            line += f", {100 * times.hidden_share:.0f} % hidden"
        print(line, flush=True)
        if self._logdir is not None:
            self._write(epoch, times)

    def _measured(self) -> EpochTimes:
        steps = self._steps[1:] or self._steps
        step_s, communication_s, exposed_s = (
            map(sum, zip(*steps, strict=True)) if steps else (0,) * 3
        )
        hidden = 1.0
        if communication_s > 0:
            hidden = min(1.0, max(0.0, 1.0 - exposed_s / communication_s))
        return EpochTimes(
            time.perf_counter() - self._epoch_begin_s,
            len(steps) * self.batch_size / step_s if step_s > 0 else 0.0,
            communication_s / step_s if step_s > 0 else 0.0,
            hidden,
        )

    def _write(self, epoch: int, times: EpochTimes) -> None:
        import tensorflow as tf

        if self._writer is None:
            self._writer = tf.summary.create_file_writer(str(self._logdir))
        with self._writer.as_default(step=epoch):
            for name, value in times._asdict().items():
                tf.summary.scalar(name, value)
        self._writer.flush()
