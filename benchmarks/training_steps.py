"""Times of single training steps: of a plain model and of a distributed one, in turn."""

from __future__ import annotations

import resource
import time
from typing import Any, NamedTuple

import keras
import tensorflow as tf

import tarantella as tnt


class StepTime(NamedTuple):
    """Cost of one step on this rank, in seconds."""

    wall_s: float
    cpu_s: float


def process_cpu_s() -> float:
    """User and system time of all threads of this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


class StepClock(keras.callbacks.Callback):
    """Notes what each step costs, reading its batch included.

    Attributes:
        steps: One entry per step.
    """

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[StepTime] = []
        self._begin = StepTime(0.0, 0.0)

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._begin = StepTime(time.perf_counter(), process_cpu_s())

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        wall_s, cpu_s = time.perf_counter(), process_cpu_s()
        self.steps.append(StepTime(wall_s - self._begin.wall_s, cpu_s - self._begin.cpu_s))


def time_steps(model: keras.Model, data: Any) -> list[StepTime]:
    """Train on all batches of `data`. Collective for a distributed model."""
    clock = StepClock()
    model.fit(data, verbose=0, callbacks=[clock])
    return clock.steps


def versions() -> dict[str, str]:
    """What is measured."""
    return {
        "tarantella": tnt.__version__,
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
    }
