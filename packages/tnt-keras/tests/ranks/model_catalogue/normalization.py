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


@wrong()
def deviation_of_the_batch_as_feature() -> Training:
    """Progressive growing of GANs: the layer of minibatch deviations."""

    def deviation(x: Any, kept: Any) -> Any:
        spread = tf.reduce_mean(tf.math.reduce_std(x, axis=0))
        return tf.concat([x, tf.fill([tf.shape(x)[0], 1], spread)], axis=-1)

    return after_features(Keeping(lambda kept, x: kept + 1.0, use=deviation))


@wrong()
def attention_among_samples() -> Training:
    """BatchFormer: samples of a batch attend to each other."""

    def attend(x: Any, kept: Any) -> Any:
        return x + tf.matmul(tf.nn.softmax(tf.matmul(x, x, transpose_b=True)), x)

    return after_features(Keeping(lambda kept, x: kept + 1.0, use=attend))


@right()
def spectral_normalisation() -> Training:
    return after_features(keras.layers.SpectralNormalization(keras.layers.Dense(4)))


@right()
def adapted_normalisation() -> Training:
    layer = keras.layers.Normalization()
    layer.adapt(data.features())
    return after_features(layer)
