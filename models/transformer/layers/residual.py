"""What stands around every sublayer: norm before it, dropout and sum after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

EPSILON = 1e-6


def layer_norm(name: str, dtype: Any) -> keras.layers.LayerNormalization:
    """Return a layer normalisation as all of the network has it."""
    return keras.layers.LayerNormalization(epsilon=EPSILON, dtype=dtype, name=name)


@keras.saving.register_keras_serializable("tnt_models")
class Residual(keras.layers.Layer):
    """x + dropout(sublayer(norm(x))), called pre-norm: deep stacks train well from the start.

    Args:
        hidden_size: Entries of a vector.
        dropout: Share dropped in training of what the sublayer adds.
        **kwargs: Of the layer.
    """

    def __init__(self, hidden_size: int, dropout: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.hidden_size = hidden_size
        self.dropout = dropout
        self.norm = layer_norm("norm", self.dtype_policy)
        self.drop = keras.layers.Dropout(dropout, dtype=self.dtype_policy)

    def build(self, input_shape: Any) -> None:
        """Make the normalisation."""
        self.norm.build((None, None, self.hidden_size))
        self.built = True

    def call(
        self, vectors: Any, sublayer: Callable[[Any], Any], training: bool | None = None
    ) -> Any:
        """Return vectors (batch, length, hidden) with what the sublayer adds to them."""
        return vectors + self.drop(sublayer(self.norm(vectors)), training=training)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments, for saving."""
        own = {"hidden_size": self.hidden_size, "dropout": self.dropout}
        return {**super().get_config(), **own}
