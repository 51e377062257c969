"""One process: trains a model, plain or distributed, and notes when its first steps have ended."""

# Usage: python -m benchmarks.first_step.rank RESULT {plain,tnt} MODEL NUMBER

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import keras

import tarantella as tnt
from benchmarks.first_step.models import MODELS, samples_of
from benchmarks.step_time import StepTime, between, now
from benchmarks.training_steps import versions

BATCH_SIZE = 16
EPOCHS = 3
STEPS = 4


class FirstSteps(keras.callbacks.Callback):
    """Notes when each epoch begins and when its first step has ended."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[StepTime] = []
        self._begin = now()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if epoch:
            self._begin = now()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if batch == 0:
            self.times += between([self._begin, now()])


def train(kind: str, name: str) -> list[StepTime]:
    """Train a new model for some epochs; return the cost until the first step of each ends."""
    # That of the first epoch begins before the model is made distributed and compiled.
    keras.utils.set_random_seed(1)
    plain = MODELS[name]()
    inputs, labels = samples_of(plain, BATCH_SIZE * STEPS)
    watch = FirstSteps()
    model = plain
    if kind == "tnt":
        model = tnt.Model(plain)
        model.compile(plain.optimizer, plain.loss, metrics=["accuracy"], jit_compile=False)
    model.fit(inputs, labels, BATCH_SIZE, EPOCHS, verbose=0, shuffle=False, callbacks=[watch])
    return watch.times


def main() -> None:
    path, kind, name, number = sys.argv[1:]
    _ = tnt.Model  # is imported when it is first used, and imports are not what is measured
    begin = now()
    epochs = [train(kind, name) for _ in range(int(number))]
    result = {"versions": versions(), "epochs": epochs, "all": between([begin, now()])}
    if os.environ["TNT_RANK"] == "0":
        Path(path).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
