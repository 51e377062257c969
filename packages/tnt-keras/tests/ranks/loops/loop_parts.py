"""Data, network and decorator of the loops, serial and with all ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tnt_keras

NUM_SAMPLES, BATCH_SIZE = 19, 6  # the last batch of a pass has one sample, fewer than ranks


def images() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(5)
    x = generator.normal(size=(NUM_SAMPLES, 4, 4, 1)).astype("float32")
    return x, generator.integers(0, 3, NUM_SAMPLES)


def batches(distributed: bool) -> Any:
    """Images with labels."""
    data = tf.data.Dataset.from_tensor_slices(images())
    data = data.shuffle(NUM_SAMPLES, seed=7).batch(BATCH_SIZE)
    return tnt_keras.data.distribute(data) if distributed else data


def step_of(distributed: bool, **options: Any) -> Callable[[Any], Any]:
    """The decorator of a step."""
    if distributed:
        return tnt_keras.function(**options)
    return (lambda function: function) if options.get("run_eagerly") else tf.function


def classifier() -> keras.Model:
    keras.utils.set_random_seed(3)
    return keras.Sequential(
        [
            keras.Input((4, 4, 1)),
            keras.layers.Conv2D(4, 3, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(3),
        ]
    )


def weights_of(*owners: Any) -> list[np.ndarray]:
    return [np.asarray(variable) for owner in owners for variable in owner.variables]
