"""Recommendation: ratings, retrieval, sequences of items."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers
from serial_comparison import Values

from .registry import example
from .samples import BATCH_SIZE, EPOCHS, FIT, NUM_SAMPLES, adam, numbers, shown


def _users_and_items() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(3)
    users, items = (generator.integers(0, size, NUM_SAMPLES) for size in (6, 9))
    return users.astype("int32"), items.astype("int32")


@example("recommendation", "collaborative filtering: embeddings of users and items, and biases")
def collaborative_filtering(tnt: Any) -> Values:
    class Recommender(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            penalty = keras.regularizers.l2(1e-3)
            self.users = layers.Embedding(6, 4, embeddings_regularizer=penalty)
            self.items = layers.Embedding(9, 4, embeddings_regularizer=penalty)
            self.of_users, self.of_items = layers.Embedding(6, 1), layers.Embedding(9, 1)

        def call(self, pairs: Any) -> Any:
            users, items = pairs[:, 0], pairs[:, 1]
            match = keras.ops.sum(self.users(users) * self.items(items), axis=1, keepdims=True)
            return keras.ops.sigmoid(match + self.of_users(users) + self.of_items(items))

    model = tnt.Model(Recommender())
    model.compile(adam(), keras.losses.BinaryCrossentropy())
    pairs = np.stack(_users_and_items(), axis=1)
    ratings = np.random.default_rng(4).uniform(size=(NUM_SAMPLES, 1)).astype("float32")
    history = model.fit(pairs, ratings, validation_data=(pairs[:6], ratings[:6]), **FIT)
    best = np.argsort(model.predict(pairs, verbose=0)[:, 0])[::-1][:3]
    return shown(model, history=history, best=best)


@example("recommendation", "two towers: retrieval with the other items of the batch as negatives")
def two_towers(tnt: Any) -> Values:
    class TwoTowers(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.users, self.items = layers.Embedding(6, 4), layers.Embedding(9, 4)
            self.tracker = keras.metrics.Mean(name="loss")

        @property
        def metrics(self) -> list[Any]:
            return [self.tracker]

        def call(self, pair: Any) -> Any:
            return self.users(pair[0]), self.items(pair[1])

        def train_step(self, data: Any) -> dict[str, Any]:
            with tf.GradientTape() as tape:
                users, items = self(data)
                scores = tf.matmul(users, items, transpose_b=True)
                truth = tf.range(tf.shape(scores)[0])
                loss = keras.losses.sparse_categorical_crossentropy(truth, scores, from_logits=True)
                loss = tf.reduce_mean(loss)
            weights = self.trainable_weights
            self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
            self.tracker.update_state(loss)
            return {"loss": self.tracker.result()}

    dataset = tf.data.Dataset.from_tensor_slices(_users_and_items()).batch(BATCH_SIZE)
    model = tnt.Model(TwoTowers())
    model.compile(keras.optimizers.Adagrad(0.1))
    history = model.fit(dataset, epochs=EPOCHS, verbose=0)
    return shown(model, history=history)


@example("recommendation", "behaviour sequence Transformer: the next rating from the last films")
def behaviour_sequence(tnt: Any) -> Values:
    generator = np.random.default_rng(7)
    inputs = {
        "films": keras.Input((4,), dtype="int32", name="films"),
        "ratings": keras.Input((4,), name="ratings"),
        "user": keras.Input((3,), name="user"),
    }
    x = layers.Embedding(9, 4)(inputs["films"])
    x = layers.multiply([x, layers.Reshape((4, 1))(inputs["ratings"])])
    x = layers.LayerNormalization()(layers.add([x, layers.MultiHeadAttention(2, 2)(x, x)]))
    x = layers.concatenate([layers.Flatten()(x), inputs["user"]])
    x = layers.Dropout(0.1)(layers.LeakyReLU()(layers.Dense(4)(x)))
    model = keras.Model(inputs, layers.Dense(1)(x))
    model = tnt.Model(model)
    optimizer = keras.optimizers.Adagrad(0.01)
    model.compile(optimizer, "mse", metrics=[keras.metrics.MeanAbsoluteError()])
    x = {
        "films": generator.integers(0, 9, (NUM_SAMPLES, 4)).astype("int32"),
        "ratings": generator.uniform(1, 5, (NUM_SAMPLES, 4)).astype("float32"),
        "user": numbers(3),
    }
    return shown(model, history=model.fit(x, numbers(1, seed=5), **FIT))
