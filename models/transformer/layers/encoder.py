"""From the vectors of a source to its memory, which the decoder looks at."""

from __future__ import annotations

from typing import Any

import keras

from models.transformer.layers.attention import MultiHeadAttention
from models.transformer.layers.feed_forward import FeedForward
from models.transformer.layers.residual import Residual, layer_norm
from models.transformer.params import TransformerParams


class EncoderLayer(keras.layers.Layer):
    """Tokens of the source look at each other, then each is transformed by itself.

    Args:
        params: Sizes and dropouts.
        **kwargs: Of the layer.
    """

    def __init__(self, params: TransformerParams, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        sizes = (params.hidden_size, params.num_heads, params.attention_dropout)
        self.attention = MultiHeadAttention(*sizes, dtype=self.dtype_policy, name="attention")
        self.feed_forward = FeedForward(
            params.hidden_size, params.filter_size, params.relu_dropout, dtype=self.dtype_policy
        )
        self.around_attention, self.around_feed_forward = (
            Residual(
                params.hidden_size,
                params.layer_postprocess_dropout,
                dtype=self.dtype_policy,
                name=name,
            )
            for name in ("around_attention", "around_feed_forward")
        )

    def build(self, input_shape: Any) -> None:
        """Make all weights."""
        for layer in (
            self.attention,
            self.feed_forward,
            self.around_attention,
            self.around_feed_forward,
        ):
            layer.build(input_shape)
        self.built = True

    def call(self, vectors: Any, is_visible: Any, training: bool | None = None) -> Any:
        """Return new vectors for (batch, length, hidden); `is_visible` hides padding."""

        def look(normed: Any) -> Any:
            return self.attention(normed, normed, is_visible, training=training)

        def transform(normed: Any) -> Any:
            return self.feed_forward(normed, training=training)

        vectors = self.around_attention(vectors, sublayer=look, training=training)
        return self.around_feed_forward(vectors, sublayer=transform, training=training)


class Encoder(keras.layers.Layer):
    """All layers of the encoder, and a last norm.

    Args:
        params: Sizes and dropouts.
        **kwargs: Of the layer.
    """

    def __init__(self, params: TransformerParams, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.layers = [
            EncoderLayer(params, dtype=self.dtype_policy, name=f"layer_{number}")
            for number in range(params.num_hidden_layers)
        ]
        self.norm = layer_norm("norm", self.dtype_policy)

    def build(self, input_shape: Any) -> None:
        """Make all weights."""
        for layer in [*self.layers, self.norm]:
            layer.build(input_shape)
        self.built = True

    def call(self, vectors: Any, is_visible: Any, training: bool | None = None) -> Any:
        """Return the memory (batch, length, hidden) of embedded sources; padding is hidden."""
        for layer in self.layers:
            vectors = layer(vectors, is_visible, training=training)
        return self.norm(vectors)
