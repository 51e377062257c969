"""Vectors of subwords and of positions."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from models.transformer.special_tokens import PAD

LONGEST_WAVE = 1e4


@keras.saving.register_keras_serializable("tnt_models")
class SharedEmbedding(keras.layers.Layer):
    """One table for source, target and last layer (https://arxiv.org/abs/1706.03762, section 3.4).

    Args:
        vocab_size: Number of subwords.
        hidden_size: Entries of a vector.
        **kwargs: Of the layer.
    """

    def __init__(self, vocab_size: int, hidden_size: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size

    def build(self, input_shape: Any) -> None:
        """Make the table: its rows, scaled in `call`, have entries of variance 1."""
        initializer = keras.initializers.RandomNormal(stddev=self.hidden_size**-0.5)
        shape = (self.vocab_size, self.hidden_size)
        self.table = self.add_weight(shape=shape, initializer=initializer, name="table")
        self.built = True

    def call(self, tokens: Any) -> Any:
        """Return sqrt(hidden) times the rows of the table, and zeros for padding.

        Args:
            tokens: Subwords (batch, length), integers.

        Returns:
            (batch, length, hidden).
        """
        table = ops.cast(self.table, self.compute_dtype)
        vectors = ops.take(table, ops.cast(tokens, "int32"), axis=0)
        is_token = ops.cast(ops.not_equal(tokens, PAD), self.compute_dtype)
        return vectors * (ops.expand_dims(is_token, axis=-1) * math.sqrt(self.hidden_size))

    def logits(self, vectors: Any) -> Any:
        """Return products of vectors (..., hidden) with all rows, (..., vocabulary), float32."""
        table = ops.cast(self.table, self.compute_dtype)
        return ops.cast(ops.matmul(vectors, ops.transpose(table)), "float32")

    def get_config(self) -> dict[str, Any]:
        """Return the arguments, for saving."""
        sizes = {"vocab_size": self.vocab_size, "hidden_size": self.hidden_size}
        return {**super().get_config(), **sizes}


def sinusoidal_vectors(positions: Any, hidden_size: int) -> Any:
    r"""Return vectors of positions that need no training.

    With h = hidden_size / 2 frequencies w_k = 10^(-4 k / (h - 1)) the first half of a vector is
    sin(w_k t), the second cos(w_k t) (https://arxiv.org/abs/1706.03762, section 3.5).

    Args:
        positions: t, (length,), integers from 0.
        hidden_size: Even.

    Returns:
        (length, hidden), float32.
    """
    num_waves = hidden_size // 2
    step = math.log(LONGEST_WAVE) / max(num_waves - 1, 1)
    frequencies = ops.exp(ops.arange(num_waves, dtype="float32") * -step)
    angles = ops.expand_dims(ops.cast(positions, "float32"), 1) * ops.expand_dims(frequencies, 0)
    return ops.concatenate([ops.sin(angles), ops.cos(angles)], axis=1)
