"""Layers that add losses of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from . import data
from .case import Training, right, wrong
from .steps import network


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


@wrong()
def added_sum() -> Training:
    return _autoencoder(lambda code: 0.05 * tf.reduce_sum(tf.abs(code)))


@wrong()
def added_sum_alone() -> Training:
    """No other loss: all gradients are sums."""
    model = keras.Sequential([network(3), Adding(lambda y: 0.05 * tf.reduce_sum((y - 1.0) ** 2))])
    model.compile(optimizer=keras.optimizers.SGD(0.1))
    return model, data.of_arrays(data.features())


@wrong()
def added_root_of_mean() -> Training:
    return _autoencoder(lambda code: tf.sqrt(tf.reduce_mean(code**2)))


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
def experts_balanced_by_variation() -> Training:
    """Shazeer's importance loss: squared coefficient of variation over the batch."""

    def importance(gates: Any) -> Any:
        sums = tf.reduce_sum(gates, axis=0)
        return tf.math.reduce_variance(sums) / tf.reduce_mean(sums) ** 2

    return _experts(importance)


@wrong()
def entropy_of_mean_prediction() -> Training:
    """Information maximisation: the mean prediction shall be uniform."""

    def entropy(gates: Any) -> Any:
        mean = tf.reduce_mean(gates, axis=0)
        return tf.reduce_sum(mean * tf.math.log(mean + 1e-6))

    return _experts(entropy)


@wrong()
def sparse_autoencoder() -> Training:
    """Divergence of the mean activation of each unit from a small one."""

    def divergence(code: Any) -> Any:
        activity = tf.clip_by_value(tf.reduce_mean((code + 1.0) / 2.0, axis=0), 0.01, 0.99)
        return tf.reduce_sum(
            0.1 * tf.math.log(0.1 / activity) + 0.9 * tf.math.log(0.9 / (1.0 - activity))
        )

    return _autoencoder(divergence)


@wrong()
def features_decorrelated_over_batch() -> Training:
    """DeCov: the covariance of features within the batch."""

    def covariance(code: Any) -> Any:
        centred = code - tf.reduce_mean(code, axis=0)
        matrix = tf.matmul(centred, centred, transpose_a=True) / 7.0
        return tf.reduce_sum(tf.linalg.set_diag(matrix, tf.zeros(4)) ** 2)

    return _autoencoder(covariance)


@right()
def added_mean() -> Training:
    return _autoencoder(lambda code: 0.3 * tf.reduce_mean(code**2))


@right()
def experts_balanced_by_entropy_of_samples() -> Training:
    def entropy(gates: Any) -> Any:
        return 0.2 * tf.reduce_mean(tf.reduce_sum(gates * tf.math.log(gates + 1e-6), axis=-1))

    return _experts(entropy)


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


@right()
def orthogonal_regularizer() -> Training:
    regularizer = keras.regularizers.OrthogonalRegularizer(0.1)
    model = keras.Sequential(
        [keras.Input((6,)), keras.layers.Dense(4, kernel_regularizer=regularizer)]
    )
    model.compile(keras.optimizers.SGD(0.1), "mse")
    return model, data.of_arrays(data.features(), data.targets(4))
