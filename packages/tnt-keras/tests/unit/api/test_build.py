"""Building a model creates its variables and changes none."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tnt_keras
from tnt_keras.api.first_step import build_by_tracing


class Counting(keras.Model):
    """Has all kinds of state, and is built when it is called first."""

    num_calls = 0

    def __init__(self) -> None:
        super().__init__()
        self.dense, self.dropout = keras.layers.Dense(2), keras.layers.Dropout(0.5, seed=3)
        self.norm = keras.layers.BatchNormalization()
        self.rows = tf.Variable([0.0, 0.0])

    def call(self, inputs: Any, training: bool = False) -> Any:
        self.num_calls += 1
        self.rows.scatter_nd_add([[1]], [1.0])
        return self.dropout(self.norm(self.dense(inputs)), training=training)


def test_steps_are_built_without_an_effect_on_variables_and_numbers() -> None:
    model = tnt_keras.Model(Counting())
    model.compile("adam", "mse", metrics=["mae"])
    shapes = (tf.TensorSpec([None, 3]), tf.TensorSpec([None, 2]))
    build_by_tracing(model, "train_step", shapes)
    assert model.dense.built
    assert model.num_calls == 0
    np.testing.assert_array_equal(model.rows.numpy(), [0.0, 0.0])
    assert float(model.norm.moving_mean[0]) == 0
    assert np.asarray(model.dropout.seed_generator.state)[1] == 0
    assert all(np.all(np.asarray(v) == 0) for metric in model.metrics for v in metric.variables)
