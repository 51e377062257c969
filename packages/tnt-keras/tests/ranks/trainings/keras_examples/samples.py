"""Small data of all kinds, and what an example returns."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from serial_comparison import Values, flat_logs

NUM_SAMPLES, BATCH_SIZE, EPOCHS = 16, 5, 2
"""Batches that neither 2 nor 3 ranks share evenly, the last of one sample: eight updates."""

FIT = {"batch_size": BATCH_SIZE, "epochs": EPOCHS, "shuffle": False, "verbose": 0}
"""Arguments of `fit` on arrays, in their order."""


def adam() -> Any:
    """Adam with an epsilon that keeps the rounding of small gradients small."""
    return keras.optimizers.Adam(0.01, epsilon=1e-3)


def images(size: int = 8, channels: int = 1) -> np.ndarray:
    """Return float32 of shape `(16, size, size, channels)`, in [0, 1]."""
    shape = (NUM_SAMPLES, size, size, channels)
    return np.random.default_rng(1).uniform(size=shape).astype("float32")


def labels(num_classes: int = 3) -> np.ndarray:
    """Return int32 of shape `(16,)`."""
    return np.random.default_rng(2).integers(0, num_classes, NUM_SAMPLES).astype("int32")


def numbers(*shape: int, seed: int = 3) -> np.ndarray:
    """Return float32 of shape `(16, *shape)` around zero."""
    return np.random.default_rng(seed).normal(size=(NUM_SAMPLES, *shape)).astype("float32")


def tokens(length: int = 6, vocabulary: int = 12, seed: int = 4) -> np.ndarray:
    """Return int32 of shape `(16, length)`: tokens from 1 on, then zeros as padding."""
    generator = np.random.default_rng(seed)
    words = generator.integers(1, vocabulary, (NUM_SAMPLES, length))
    lengths = generator.integers(1, length + 1, (NUM_SAMPLES, 1))
    return np.where(np.arange(length) < lengths, words, 0).astype("int32")


def texts() -> list[str]:
    """Return 16 sentences of one to five words."""
    words = np.array(["red", "green", "blue", "small", "large", "cat", "dog", "runs", "sleeps"])
    generator = np.random.default_rng(5)
    return [" ".join(generator.choice(words, generator.integers(1, 6))) for _ in range(NUM_SAMPLES)]


def shown(*models: Any, history: Any = None, **values: Any) -> Values:
    """Return by name weights of models, the history of `fit`, and what else there is to show."""
    by_name = {
        f"weight {number} {weight.path}": np.asarray(weight)
        for model in models
        for number, weight in enumerate(model.weights)
    }
    if history is not None:
        by_name |= {f"history {name}": np.asarray(v) for name, v in flat_logs(history.history)}
    return by_name | {name: np.asarray(value) for name, value in values.items()}
