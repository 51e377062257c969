"""Layers that add losses of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from . import data
from .case import Training, right, wrong


class Adding(keras.layers.Layer):
    """Adds a loss that is computed from its input, which it returns."""

    def __init__(self, loss_of: Callable[[Any], Any]) -> None:
        super().__init__()
        self.loss_of = loss_of

    def call(self, x: Any) -> Any:
        self.add_loss(tf.cast(self.loss_of(x), tf.float32))  # Keras adds it to a float32
        return x


def _autoencoder(loss_of: Callable[[Any], Any], **compile_arguments: Any) -> Training:
    """Return a model whose code has an added loss."""
    x = keras.Input((6,))
    code = Adding(loss_of)(keras.layers.Dense(4, activation="tanh")(x))
    model = keras.Model(x, keras.layers.Dense(6)(code))
    model.compile(**{"optimizer": keras.optimizers.SGD(0.1), "loss": "mse"} | compile_arguments)
    return model, data.of_arrays(data.features(), data.features())


@wrong()
def added_loss_of_one_value_per_sample() -> Training:
    """Keras adds the values up; the model's own loss is a mean."""
    return _autoencoder(lambda code: 0.05 * tf.reduce_sum(code**2, axis=-1))


def _experts(balance: Callable[[Any], Any]) -> Training:
    """Return a mixture of experts whose gate has a loss of balance."""
    x = keras.Input((6,))
    gates = Adding(balance)(keras.layers.Dense(3, activation="softmax")(x))
    experts = keras.layers.Reshape((3, 4))(keras.layers.Dense(12, activation="tanh")(x))
    mixed = keras.layers.Dot(axes=1)([gates, experts])
    model = keras.Model(x, keras.layers.Dense(1)(mixed))
    model.compile(keras.optimizers.SGD(0.1), "mse")
    return model, data.of_arrays(data.features(), data.targets())


@wrong()
def experts_balanced_by_products_of_means() -> Training:
    """Switch Transformer: share of samples times mean probability of each expert."""

    def balance(gates: Any) -> Any:
        chosen = tf.one_hot(tf.argmax(gates, axis=-1), 3)
        return 3.0 * tf.reduce_sum(tf.reduce_mean(chosen, axis=0) * tf.reduce_mean(gates, axis=0))

    return _experts(balance)


@wrong()
def features_decorrelated_over_batch() -> Training:
    """DeCov: the covariance of features within the batch."""

    def covariance(code: Any) -> Any:
        centred = code - tf.reduce_mean(code, axis=0)
        matrix = tf.matmul(centred, centred, transpose_a=True) / 7.0
        return tf.reduce_sum(tf.linalg.set_diag(matrix, tf.zeros(4)) ** 2)

    return _autoencoder(covariance)


@right(half_precision=False)
def activity_regularizer() -> Training:
    model = keras.Sequential(
        [
            keras.Input((6,)),
            keras.layers.Dense(4, activation="tanh", activity_regularizer="l2"),
            keras.layers.Dense(1, kernel_regularizer="l1", bias_regularizer="l1l2"),
        ]
    )
    model.compile(keras.optimizers.SGD(0.1), "mse", metrics=["mae"])
    return model, data.of_arrays(data.features(), data.targets())
