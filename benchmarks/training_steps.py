"""Times of single training steps: of a plain model and of a distributed one, in turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tarantella as tnt
from benchmarks.step_time import StepTime, between, now


class StepClock(keras.callbacks.Callback):
    """Notes what each step costs, reading its batch included."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[StepTime] = []
        self._begin = StepTime(0.0, 0.0)

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._begin = now()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.steps += between([self._begin, now()])


def batches(shape: Sequence[int], batch_size: int, num_batches: int) -> Any:
    """Batches of one and the same random image: its content does not matter for the time."""
    image = np.random.default_rng(1).random(tuple(shape), dtype=np.float32)
    samples = tf.data.Dataset.from_tensors((image, np.int32(1)))
    return samples.repeat(batch_size * num_batches).batch(batch_size)


def time_steps(
    model: keras.Model, data: Any, beside: Sequence[keras.callbacks.Callback] = ()
) -> list[StepTime]:
    """Train on all batches of `data`. Collective for a distributed model."""
    # `beside` begins and ends within each step, and counts as part of it.
    clock = StepClock()
    model.fit(data, verbose=0, callbacks=[*beside, clock])
    return clock.steps


def versions() -> dict[str, str]:
    """What is measured."""
    return {
        "tarantella": tnt.__version__,
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
    }
