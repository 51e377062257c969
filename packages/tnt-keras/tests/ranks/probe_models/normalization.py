"""Normalisation layers, and others that look at the whole batch."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from . import data
from .case import Training, right, wrong
from .layer_state import Keeping, after_features


@wrong()
def own_batch_normalisation() -> Training:
    """Written by hand with the moments of the batch."""

    def normalise(x: Any, kept: Any) -> Any:
        mean, variance = tf.nn.moments(x, axes=[0])
        return (x - mean) / tf.sqrt(variance + 1e-3)

    return after_features(
        Keeping(lambda kept, x: 0.9 * kept + 0.1 * tf.reduce_mean(x, axis=0), (6,), use=normalise)
    )


@right()
def spectral_normalisation() -> Training:
    return after_features(keras.layers.SpectralNormalization(keras.layers.Dense(4)))


@right()
def adapted_normalisation() -> Training:
    layer = keras.layers.Normalization()
    layer.adapt(data.features())
    return after_features(layer)
