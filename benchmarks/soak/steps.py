"""One rank of a long training: `steps.py RESULT STEPS LOOKS`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import keras
import numpy as np

import tarantella as tnt
from benchmarks.soak.use import ProcessUse, use_of_this_process
from benchmarks.training_steps import versions

SAMPLES, FEATURES, BATCH_SIZE = 1024, 16, 32


class Watch(keras.callbacks.Callback):
    """Takes a look at this process at the same distance of steps."""

    def __init__(self, steps: int, looks: int) -> None:
        super().__init__()
        self.uses: list[ProcessUse] = []
        self._distance = max(1, steps // looks)
        self._num_steps = 0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._num_steps += 1
        if self._num_steps % self._distance == 0:
            self.uses.append(use_of_this_process())


def main() -> None:
    path, steps, looks = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    keras.utils.set_random_seed(1)
    layers = keras.layers
    stack = [keras.Input((FEATURES,)), layers.Dense(64, activation="relu"), layers.Dense(1)]
    model = tnt.Model(keras.Sequential(stack))
    model.compile("adam", "mse", metrics=["mae"])
    inputs = np.random.default_rng(1).standard_normal((SAMPLES, FEATURES)).astype(np.float32)
    watch = Watch(steps, looks)
    epochs = -(-steps * BATCH_SIZE // SAMPLES)
    model.fit(inputs, inputs[:, :1], BATCH_SIZE, epochs, verbose=0, callbacks=[watch])
    gathered = tnt.allgather_object([asdict(use) for use in watch.uses])
    if tnt.is_master_rank():
        result = {"versions": versions(), "uses": gathered}
        Path(path).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
