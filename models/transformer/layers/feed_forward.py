"""Two dense layers for each token by itself."""

from __future__ import annotations

from typing import Any

import keras


@keras.saving.register_keras_serializable("tnt_models")
class FeedForward(keras.layers.Layer):
    """max(0, x A + a) B + b (https://arxiv.org/abs/1706.03762, section 3.3).

    Args:
        hidden_size: Entries of inputs and outputs.
        filter_size: Entries between.
        dropout: Share of these that is dropped in training.
        **kwargs: Of the layer.
    """

    def __init__(self, hidden_size: int, filter_size: int, dropout: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.hidden_size = hidden_size
        self.filter_size = filter_size
        self.dropout = dropout
        policy = self.dtype_policy
        self.inner = keras.layers.Dense(filter_size, "relu", dtype=policy, name="inner")
        self.outer = keras.layers.Dense(hidden_size, dtype=policy, name="outer")
        self.drop = keras.layers.Dropout(dropout, dtype=policy)

    def build(self, input_shape: Any) -> None:
        """Make both matrices."""
        self.inner.build((None, None, self.hidden_size))
        self.outer.build((None, None, self.filter_size))
        self.built = True

    def call(self, vectors: Any, training: bool | None = None) -> Any:
        """Return new vectors for those of tokens, (batch, length, hidden)."""
        return self.outer(self.drop(self.inner(vectors), training=training))

    def get_config(self) -> dict[str, Any]:
        """Return the arguments, for saving."""
        own = {
            "hidden_size": self.hidden_size,
            "filter_size": self.filter_size,
            "dropout": self.dropout,
        }
        return {**super().get_config(), **own}
