"""Layers and models that keep samples of earlier steps."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from . import data
from .case import Training, wrong
from .layer_state import Keeping, after_features


@wrong()
def queue_of_features() -> Training:
    """MoCo: the newest features enter in front, the oldest leave."""
    return after_features(Keeping(lambda kept, x: tf.concat([x, kept], axis=0)[:16], (16, 6)))


@wrong()
def last_sample() -> Training:
    """Recurrent state over batches: what the last row has left."""
    return after_features(Keeping(lambda kept, x: x[-1], (6,)))


@wrong()
def memory_bank() -> Training:
    """Each sample writes its own row of a table."""

    def write(kept: Any, x: Any) -> Any:
        places = tf.cast(tf.math.floormod(tf.abs(x[:, 0]) * 1e4, 4096.0), tf.int32)
        return tf.tensor_scatter_nd_add(kept, places[:, None], x)

    return after_features(Keeping(write, (4096, 6)))


@wrong(evaluates=False)
def large_memory_of_which_rows_are_written() -> Training:
    """A step changes 7 of 50,000 rows, by sums as long as each sample has a place of its own."""

    class Memory(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.dense = keras.layers.Dense(4)
            self.kept = self.add_weight((50_000, 4), "zeros", trainable=False, name="kept")

        def call(self, inputs: Any) -> Any:
            return self.dense(inputs["x"])

        def train_step(self, batch: Any) -> Any:
            inputs, y = batch
            places = inputs["place"]
            before = tf.gather(self.kept.value, places)
            with tf.GradientTape() as tape:
                features = self(inputs)
                loss = tf.reduce_mean((tf.reduce_sum(features, 1, keepdims=True) - y) ** 2)
                loss += 0.1 * tf.reduce_mean((features - before) ** 2)
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply(gradients, self.trainable_variables)
            after = 0.5 * (before + features)
            self.kept.assign(tf.tensor_scatter_nd_update(self.kept.value, places[:, None], after))
            return {"loss": loss}

    model = Memory()
    model.compile(keras.optimizers.SGD(0.1))
    inputs = {"x": data.features(), "place": np.arange(data.NUM_SAMPLES, dtype="int32") * 1999}
    return model, data.of_arrays(inputs, data.targets())
