"""Attention with several heads."""

from __future__ import annotations

import math
from typing import Any

import keras
import tensorflow as tf
from keras import ops

HIDDEN = -1e9
"""A score that leaves a weight of exactly 0, and equal weights where nothing is visible."""


@keras.saving.register_keras_serializable("tnt_models")
class MultiHeadAttention(keras.layers.Layer):
    """Scaled dot-product attention (https://arxiv.org/abs/1706.03762, section 3.2), no offsets.

    Keys and values can be made before (`keys_and_values`) and be used several times (`attend`), as
    decoding does.

    Args:
        hidden_size: Entries of inputs and outputs.
        num_heads: Which share them.
        dropout: Share of the attention weights that is dropped in training.
        **kwargs: Of the layer.
    """

    def __init__(self, hidden_size: int, num_heads: int, dropout: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.hidden_size = hidden_size
        self.num_heads = num_heads
        self.dropout = dropout
        self.query, self.key, self.value, self.output_transform = (
            keras.layers.Dense(hidden_size, use_bias=False, dtype=self.dtype_policy, name=name)
            for name in ("query", "key", "value", "output")
        )
        self.drop = keras.layers.Dropout(dropout, dtype=self.dtype_policy)

    def build(self, input_shape: Any) -> None:
        """Make the four matrices."""
        for dense in (self.query, self.key, self.value, self.output_transform):
            dense.build((None, None, self.hidden_size))
        self.built = True

    def call(self, queries: Any, source: Any, is_visible: Any, training: bool | None = None) -> Any:
        """Return for each query the mean of what it looks at.

        Args:
            queries: (batch, length, hidden).
            source: What is looked at, (batch, source length, hidden).
            is_visible: Where queries may look; broadcasts to (batch, heads, length, source length).
            training: Whether attention weights are dropped.

        Returns:
            (batch, length, hidden).
        """
        keys, values = self.keys_and_values(source)
        return self.attend(queries, keys, values, is_visible, training)

    def keys_and_values(self, source: Any) -> tuple[Any, Any]:
        """Return both (batch, length, heads, width) for a source (batch, length, hidden)."""
        return self._split(self.key(source)), self._split(self.value(source))

    def attend(
        self, queries: Any, keys: Any, values: Any, is_visible: Any, training: bool | None = None
    ) -> Any:
        """Return what `call` does, from keys and values (batch, source length, heads, width).

        Without `is_visible` queries may look everywhere.
        """
        queries = self._split(self.query(queries)) * math.sqrt(self.num_heads / self.hidden_size)
        scores = ops.cast(ops.einsum("bqhw,bshw->bhqs", queries, keys), "float32")
        if is_visible is not None:
            scores = ops.where(is_visible, scores, HIDDEN)
        # Keras' own softmax would warn of one position alone, with which each decoding begins.
        weights = ops.cast(tf.nn.softmax(scores), self.compute_dtype)
        weights = self.drop(weights, training=training)
        means = ops.einsum("bhqs,bshw->bqhw", weights, values)
        return self.output_transform(ops.reshape(means, (*ops.shape(means)[:2], self.hidden_size)))

    def _split(self, vectors: Any) -> Any:
        """Return vectors (batch, length, hidden) as (batch, length, heads, width)."""
        width = self.hidden_size // self.num_heads
        return ops.reshape(vectors, (*ops.shape(vectors)[:2], self.num_heads, width))

    def get_config(self) -> dict[str, Any]:
        """Return the arguments, for saving."""
        own = {
            "hidden_size": self.hidden_size,
            "num_heads": self.num_heads,
            "dropout": self.dropout,
        }
        return {**super().get_config(), **own}
