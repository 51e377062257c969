"""Rounds of new models, fits, recompiles and changed `trainable`, and what they leave behind."""

from __future__ import annotations

import collections
import gc
import os
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from classifiers import build_optimizer

import tnt_keras

NUM_SAMPLES = 10


def observe_rounds(distributed: bool, num_rounds: int, observed: list[int]) -> list[dict[str, Any]]:
    """Runs rounds, one after the other, in this process.

    Args:
        distributed: Whether models are distributed, else plain ones of Keras.
        num_rounds: How many.
        observed: The rounds, counted from 0, after which to look at the process.
    """
    seen = []
    for index in range(num_rounds):
        _run(distributed)
        if index in observed:
            seen.append(_observe())
    return seen


def _run(distributed: bool) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(NUM_SAMPLES, 6)).astype("float32")
    y = x[:, :1]
    norm = keras.layers.BatchNormalization(synchronized=distributed)
    layers = [keras.layers.Dense(5, "tanh"), norm, keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((6,)), *layers])
    if distributed:
        model = tnt_keras.Model(model, check=False)  # as for users
    optimizer = keras.optimizers.Adam(1e-2, gradient_accumulation_steps=2)
    model.compile(optimizer, "mse", metrics=["mae"])
    build_optimizer(model)
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(5)
    model.fit(data, verbose=0)
    model.layers[0].trainable = False
    model.compile("sgd", "mse")
    build_optimizer(model)
    model.fit(x, y, batch_size=5, verbose=0)
    model.predict(x, batch_size=5, verbose=0)


def _observe() -> dict[str, Any]:
    gc.collect()
    kinds = collections.Counter(map(type, gc.get_objects()))
    of_tarantella = {
        f"{cls.__module__}.{cls.__qualname__}": number
        for cls, number in kinds.items()
        if str(cls.__module__).startswith("tnt_")
        # Inside of the graphs that TensorFlow keeps of plain models too.
        and cls.__name__ != "MicroBatch"
    }
    with open("/proc/self/maps") as file:
        shared = [line for line in file if "/dev/shm" in line]
    return {
        "live objects": of_tarantella,
        "models": sum(number for cls, number in kinds.items() if issubclass(cls, keras.Model)),
        "graphs": sum(number for cls, number in kinds.items() if cls.__name__ == "FuncGraph"),
        "threads": len(os.listdir("/proc/self/task")),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "shared mappings": len(shared),
        "resident bytes": _resident_bytes(),
    }


def _resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
