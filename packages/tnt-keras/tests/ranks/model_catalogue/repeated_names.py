"""Steps that do something once for each user of a batch: the same one may come on two ranks."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from . import data
from .case import Training, wrong
from .steps import network, own_step


def _users() -> Any:
    """Numbers of users: those of the first batch are all different, later ones come again."""
    return (np.arange(data.NUM_SAMPLES) % 9).astype("int32")


@wrong()
def mean_over_users_of_their_means() -> Training:
    def mean_of_means(model: Any, x: Any, y: Any) -> Any:
        users, of_samples = tf.unique(x["users"])
        errors = tf.square(model(x)[:, 0] - y[:, 0])
        return tf.reduce_mean(tf.math.unsorted_segment_mean(errors, of_samples, tf.size(users)))

    class OfFeatures(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.network = network()

        def call(self, x: Any) -> Any:
            return self.network(x["features"])

    x = {"features": data.features(), "users": _users()}
    return own_step(mean_of_means, OfFeatures()), data.of_arrays(x, data.targets())


@wrong()
def penalty_of_each_row_that_is_looked_up_once() -> Training:
    class Penalized(keras.layers.Layer):
        def build(self, shape: Any) -> None:
            self.table = self.add_weight(shape=(9, 6), initializer="normal", name="table")

        def call(self, users: Any) -> Any:
            rows = tf.gather(self.table, tf.unique(users)[0])
            self.add_loss(0.05 * tf.reduce_sum(tf.square(rows)))
            return tf.gather(self.table, users)

    x, users = keras.Input((6,)), keras.Input((), dtype="int32")
    y = keras.layers.Dense(1)(keras.layers.Add()([x, Penalized()(users)]))
    model = keras.Model([x, users], y)
    model.compile(keras.optimizers.SGD(0.05), "mse")
    return model, data.of_arrays([data.features(), _users()], data.targets())
