"""Models with the functions for several ranks, which are ordinary operations."""

from __future__ import annotations

import tempfile
from typing import Any

import keras
import tensorflow as tf

import tnt_keras

from . import data
from .case import Training, wrong
from .relations import unit
from .steps import OwnStep, network, own_step


class Gathered(OwnStep):
    """SimCLR as written for several ranks: two views of all samples, of which each is gathered."""

    def contrast(self, x: Any) -> Any:
        views = tf.concat(
            [tnt_keras.gather_batch(unit(self, each)) for each in (x, tf.sin(x))], axis=0
        )
        logits = 2.0 * tf.matmul(views, views, transpose_b=True)
        logits -= tf.cast(1e4, views.dtype) * tf.eye(tf.shape(views)[0], dtype=views.dtype)
        partners = tf.roll(tf.range(tf.shape(views)[0]), tf.shape(x)[0], 0)
        return tf.reduce_mean(
            keras.ops.sparse_categorical_crossentropy(partners, logits, from_logits=True)
        )

    def logs(self, x: Any, y: Any, loss: Any) -> dict[str, Any]:
        return super().logs(x, y, self.contrast(x))


def _gathered() -> Training:
    optimizer = keras.optimizers.SGD(0.1)
    if keras.config.dtype_policy().name == "mixed_float16":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=2.0**10)

    def scaled(model: Any, x: Any, _: Any) -> Any:
        return model.optimizer.scale_loss(model.contrast(x))

    model = own_step(scaled, network(4), optimizer, kind=Gathered)
    return model, data.of_arrays(data.features(), data.labels())


@wrong(evaluates=False)
def contrast_of_gathered_views() -> Training:
    return _gathered()


@wrong(evaluates=False, policy="mixed_float16")
def contrast_of_gathered_views_in_float16() -> Training:
    return _gathered()


@wrong()
def sums_and_rows_of_the_batch_in_a_model_that_was_saved() -> Training:
    """The functions for several ranks on the tensors of a functional model."""
    inputs = keras.Input((6,))
    hidden = keras.layers.Dense(6, activation="tanh")(inputs)
    centred = hidden - tnt_keras.batch_mean(hidden, weights=keras.ops.abs(inputs[:, 0]))
    similarity = keras.ops.matmul(centred, keras.ops.transpose(tnt_keras.gather_batch(centred)))
    assert similarity.shape == (None, None)
    near = keras.ops.mean(similarity, axis=1, keepdims=True)
    total = tnt_keras.batch_sum(centred * centred)
    model = keras.Model(inputs, keras.layers.Dense(6)(centred * near / total))
    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/functional.keras")
        model = keras.models.load_model(f"{folder}/functional.keras")
    model.compile(keras.optimizers.SGD(0.01), "mse")
    return model, data.of_arrays(data.features(), data.features())
