"""Samples of all kinds, and the arguments of `fit` with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

NUM_SAMPLES = 23
"""Three batches of 7, which neither 2 nor 3 ranks share evenly, and one of 2."""

BATCH_SIZE = 7
EPOCHS = 2


def features(width: int = 6, seed: int = 3) -> np.ndarray:
    """Return float32 of shape `(23, width)`."""
    return _generator(seed).normal(size=(NUM_SAMPLES, width)).astype("float32")


def labels(num_classes: int = 3, seed: int = 4) -> np.ndarray:
    """Return int32 of shape `(23,)`."""
    return _generator(seed).integers(0, num_classes, NUM_SAMPLES).astype("int32")


def one_hot(num_classes: int = 3) -> np.ndarray:
    """Return the labels as float32 of shape `(23, num_classes)`."""
    return np.eye(num_classes, dtype="float32")[labels(num_classes)]


def targets(width: int = 1, seed: int = 5) -> np.ndarray:
    """Return float32 of shape `(23, width)` with growing spread, so that batches differ."""
    spread = np.linspace(0.3, 2.0, NUM_SAMPLES)[:, None]
    return (_generator(seed).normal(size=(NUM_SAMPLES, width)) * spread).astype("float32")


def bits(width: int = 1, seed: int = 6) -> np.ndarray:
    """Return zeros and ones, float32 of shape `(23, width)`."""
    return _generator(seed).integers(0, 2, (NUM_SAMPLES, width)).astype("float32")


def images(size: int = 8, channels: int = 1) -> np.ndarray:
    """Return float32 of shape `(23, size, size, channels)`, in [0, 1]."""
    shape = (NUM_SAMPLES, size, size, channels)
    return _generator(7).uniform(size=shape).astype("float32")


def tokens(length: int = 5, vocabulary: int = 11) -> np.ndarray:
    """Return int32 of shape `(23, length)`: 1 to `length` tokens from 1 on, then zeros."""
    generator = _generator(8)
    words = generator.integers(1, vocabulary, (NUM_SAMPLES, length))
    lengths = generator.integers(1, length + 1, NUM_SAMPLES)
    return np.where(np.arange(length) < lengths[:, None], words, 0).astype("int32")


def sample_weights() -> np.ndarray:
    """Return float32 of shape `(23,)`, very different ones."""
    return np.linspace(0.1, 3.0, NUM_SAMPLES).astype("float32")[_generator(9).permutation(23)]


def of_arrays(x: Any, y: Any = None, **more: Any) -> dict[str, Any]:
    """Return the arguments of a `fit` on arrays, in the given order."""
    arguments = {"x": x, "batch_size": BATCH_SIZE, "epochs": EPOCHS, "shuffle": False, "verbose": 0}
    if y is not None:
        arguments["y"] = y
    return arguments | more


def of_dataset(*elements: Any, **more: Any) -> dict[str, Any]:
    """Return the arguments of a `fit` on a dataset of batches of these elements."""
    dataset = tf.data.Dataset.from_tensor_slices(elements).batch(BATCH_SIZE)
    return {"x": dataset, "epochs": EPOCHS, "verbose": 0} | more


def _generator(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)
