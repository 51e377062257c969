"""Times of single training steps: of a plain model and of a distributed one, in turn."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

import tarantella as tnt
from benchmarks.step_time import StepTime, between, now


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
        self._begin = now()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.steps += between([self._begin, now()])


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
