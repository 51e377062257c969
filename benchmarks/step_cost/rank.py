"""One rank: trains a plain model and a distributed one in turn, and times their steps."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np

import tarantella as tnt
import tnt_comm
from benchmarks.training_steps import batches, time_steps, versions

NUM_CLASSES = 1000


def resnet50(pixels: int) -> keras.Model:
    """What most people train first."""
    return keras.applications.ResNet50(
        weights=None, input_shape=(pixels, pixels, 3), classes=NUM_CLASSES
    )


def tiny(pixels: int) -> keras.Model:
    """For tests."""
    layers = [keras.layers.Conv2D(8, 3, 2, "same") for _ in range(3)]
    ends = [keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(NUM_CLASSES, "softmax")]
    return keras.Sequential([keras.Input((pixels, pixels, 3)), *layers, *ends])


MODELS = {"resnet50": resnet50, "tiny": tiny}


def build_model(name: str, pixels: int) -> keras.Model:
    """With random weights, equal on all ranks."""
    keras.utils.set_random_seed(1)
    return MODELS[name](pixels)


def compiled(model: keras.Model) -> keras.Model:
    """With the optimizer of the original training."""
    optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
    model.compile(optimizer, "sparse_categorical_crossentropy", jit_compile=False)
    return model


def measure(
    name: str, pixels: int, batch_size: int, num_rounds: int, num_steps: int
) -> dict[str, Any]:
    """Train both models in turn, `num_steps` steps in each round, after a warm-up. Collective."""
    # For both kinds of model, rounds of steps of (seconds, CPU seconds) of each rank.
    global_size = batch_size * tnt_comm.get_size()
    kinds = {
        "plain": (compiled(build_model(name, pixels)), batch_size),
        "tnt": (compiled(tnt.Model(build_model(name, pixels))), global_size),
    }
    for model, size in kinds.values():
        time_steps(model, batches((pixels, pixels, 3), size, 2))
    rounds: dict[str, Any] = {kind: [] for kind in kinds}
    for _ in range(num_rounds):
        for kind, (model, size) in kinds.items():
            tnt_comm.barrier()  # the other rank's plain step loads the memory as much as ours
            steps = time_steps(model, batches((pixels, pixels, 3), size, num_steps))
            rounds[kind].append(np.stack(tnt_comm.allgather(np.array(steps))).tolist())
    return rounds


def main() -> None:
    path, name, *numbers = sys.argv[1:]
    rounds = measure(name, *map(int, numbers))
    if tnt_comm.get_rank() == 0:
        result = {"versions": versions(), "rounds": rounds}
        Path(path).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
