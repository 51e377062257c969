"""Tables of which a step looks up rows."""

from __future__ import annotations

from typing import Any

import keras

from . import data
from .case import Training, right, wrong


class Positions(keras.layers.Layer):
    """Adds one row for each place in the sequence: looked up once, not once per sample."""

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        self.length = length
        self.table = keras.layers.Embedding(length, width)

    def build(self, shape: Any) -> None:
        self.table.build((self.length,))

    def call(self, x: Any) -> Any:
        return x + self.table(keras.ops.arange(self.length))


def _text_classifier(optimizer: Any, positions: bool = True) -> Training:
    x = keras.Input((5,), dtype="int32")
    hidden = keras.layers.Embedding(11, 4)(x)
    if positions:
        hidden = Positions(5, 4)(hidden)
    hidden = keras.layers.Dense(4, activation="tanh")(hidden)
    hidden = keras.layers.GlobalAveragePooling1D()(hidden)
    model = keras.Model(x, keras.layers.Dense(3, activation="softmax")(hidden))
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model, data.of_arrays(data.tokens(), data.labels())


@wrong()
def positions_with_adam() -> Training:
    return _text_classifier(keras.optimizers.Adam(1e-2, epsilon=1e-3))


@wrong()
def positions_with_rmsprop() -> Training:
    return _text_classifier(keras.optimizers.RMSprop(1e-2, epsilon=1e-3))


@wrong()
def positions_with_adagrad() -> Training:
    return _text_classifier(
        keras.optimizers.Adagrad(0.1, initial_accumulator_value=1e-3, epsilon=1e-3)
    )


@right()
def positions_with_sgd() -> Training:
    return _text_classifier(keras.optimizers.SGD(0.5, momentum=0.9))


@right()
def tokens_with_adam() -> Training:
    return _text_classifier(keras.optimizers.Adam(1e-2, epsilon=1e-3), positions=False)


@right()
def tokens_with_adagrad() -> Training:
    optimizer = keras.optimizers.Adagrad(0.1, initial_accumulator_value=0.1)
    return _text_classifier(optimizer, positions=False)


@right()
def matrix_factorisation() -> Training:
    """Users and items of a recommender, and their product."""
    user, item = keras.Input((), dtype="int32"), keras.Input((), dtype="int32")
    vectors = [keras.layers.Embedding(11, 3)(user), keras.layers.Embedding(7, 3)(item)]
    model = keras.Model([user, item], keras.layers.Dot(axes=-1)(vectors))
    model.compile(keras.optimizers.SGD(0.5), "mse")
    return model, data.of_arrays([data.labels(11), data.labels(7, seed=12)], data.targets())


@right()
def reversible_embedding() -> Training:
    """One table for the input and, transposed, for the output."""
    x = keras.Input((5,), dtype="int32")
    table = keras.layers.ReversibleEmbedding(11, 4)
    hidden = keras.layers.Dense(4, activation="tanh")(table(x))
    model = keras.Model(x, table(hidden, reverse=True))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.5), loss)
    words = data.tokens()
    return model, data.of_arrays(words, words)


@right()
def low_rank_adaptation() -> Training:
    """LoRA on a frozen table and a frozen layer."""
    x = keras.Input((5,), dtype="int32")
    table, dense = keras.layers.Embedding(11, 4), keras.layers.Dense(4, activation="tanh")
    hidden = keras.layers.Flatten()(dense(table(x)))
    model = keras.Model(x, keras.layers.Dense(3, activation="softmax")(hidden))
    table.enable_lora(2)
    dense.enable_lora(2)
    model.compile(keras.optimizers.SGD(0.5), "sparse_categorical_crossentropy")
    return model, data.of_arrays(data.tokens(), data.labels())
