"""Networks of sequences."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from . import data
from .case import Training, right

layers = keras.layers


def _of_tokens(hidden_of: Any, mask_zero: bool = False, **compile_arguments: Any) -> Training:
    """Return a classifier of sentences of 5 tokens."""
    x = keras.Input((5,), dtype="int32")
    hidden = hidden_of(layers.Embedding(11, 4, mask_zero=mask_zero)(x))
    model = keras.Model(x, layers.Dense(3, activation="softmax")(hidden))
    model.compile(keras.optimizers.SGD(0.3), "sparse_categorical_crossentropy", **compile_arguments)
    return model, data.of_arrays(data.tokens(), data.labels())


@right()
def long_short_term_memory() -> Training:
    return _of_tokens(lambda x: layers.LSTM(4)(layers.LSTM(3, return_sequences=True)(x)))


@right()
def gated_recurrent_units() -> Training:
    return _of_tokens(layers.GRU(4), metrics=["accuracy"])


@right()
def both_directions_with_masks() -> Training:
    return _of_tokens(layers.Bidirectional(layers.LSTM(3)), mask_zero=True)


@right()
def convolution_over_time() -> Training:
    def hidden(x: Any) -> Any:
        return layers.GlobalMaxPooling1D()(layers.Conv1D(4, 3, padding="causal")(x))

    return _of_tokens(hidden)


@right()
def transformer_encoder() -> Training:
    def encoder(x: Any) -> Any:
        x = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 2)(x, x))
        x = layers.LayerNormalization()(x + layers.Dense(4, activation="gelu")(x))
        return layers.GlobalAveragePooling1D()(x)

    return _of_tokens(encoder, mask_zero=True)


@right()
def language_model() -> Training:
    """Causal attention; padding is masked, so that the loss counts tokens."""
    x = keras.Input((5,), dtype="int32")
    hidden = layers.Embedding(11, 4, mask_zero=True)(x)
    hidden = hidden + layers.MultiHeadAttention(2, 2)(hidden, hidden, use_causal_mask=True)
    model = keras.Model(x, layers.Dense(11)(hidden))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.3), loss, metrics=["accuracy"])
    words = data.tokens()
    return model, data.of_arrays(words, np.roll(words, -1, axis=1))


@right()
def ignored_tokens() -> Training:
    x = keras.Input((5,), dtype="int32")
    model = keras.Model(x, layers.Dense(11)(layers.Embedding(11, 4)(x)))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)
    model.compile(keras.optimizers.SGD(0.3), loss)
    words = data.tokens()
    return model, data.of_arrays(words, words)


@right()
def encoder_and_decoder() -> Training:
    """Sequence to sequence with teacher forcing and the encoder's state."""
    source, target = keras.Input((5,), dtype="int32"), keras.Input((5,), dtype="int32")
    table = layers.Embedding(11, 4)
    _, state = layers.GRU(4, return_state=True)(table(source))
    hidden = layers.GRU(4, return_sequences=True)(table(target), initial_state=state)
    model = keras.Model([source, target], layers.Dense(11, activation="softmax")(hidden))
    model.compile(keras.optimizers.SGD(0.3), "sparse_categorical_crossentropy")
    words = data.tokens()
    return model, data.of_arrays([words, words[:, ::-1].copy()], words)


@right()
def connectionist_temporal_classification() -> Training:
    x = keras.Input((9, 6))
    model = keras.Model(x, layers.Dense(5)(layers.GRU(4, return_sequences=True)(x)))
    model.compile(keras.optimizers.SGD(0.05), keras.losses.CTC())
    words = np.maximum(data.tokens(3, 5), 1)
    sounds = data.features(54).reshape(-1, 9, 6)
    return model, data.of_arrays(sounds, words)


@right()
def forecast_of_time_series() -> Training:
    x = keras.Input((8, 1))
    hidden = layers.LSTM(4)(x)
    model = keras.Model(x, layers.Dense(2)(hidden))
    model.compile(keras.optimizers.SGD(0.1), keras.losses.Huber(0.5), metrics=["mae"])
    return model, data.of_arrays(data.features(8)[..., None], data.targets(2))


@right()
def ragged_sentences() -> Training:
    """A dataset of sentences of different lengths, padded by the model."""

    class Padding(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.table = layers.Embedding(11, 4)
            self.head = layers.Dense(3, activation="softmax")

        def call(self, words: Any) -> Any:
            rows = words.to_tensor(shape=(None, 5)) if isinstance(words, tf.RaggedTensor) else words
            return self.head(tf.reduce_mean(self.table(rows), axis=1))

    words = data.tokens()
    ragged = tf.ragged.constant([row[row > 0].tolist() for row in words], dtype=tf.int32)
    model = Padding()
    model.compile(keras.optimizers.SGD(0.3), "sparse_categorical_crossentropy")
    return model, data.of_dataset(ragged, data.labels())


@right()
def tags_of_masked_sequences() -> Training:
    x = keras.Input((5, 2))
    hidden = layers.Masking()(x)
    hidden = layers.SimpleRNN(4, return_sequences=True)(hidden)
    model = keras.Model(x, layers.TimeDistributed(layers.Dense(1))(hidden))
    model.compile(keras.optimizers.SGD(0.1), "mse", weighted_metrics=["mae"])
    mask = (data.tokens() > 0)[..., None]
    return model, data.of_arrays(
        (data.features(10).reshape(-1, 5, 2) * mask).astype("float32"),
        data.features(5, seed=15)[..., None],
    )
