"""From vectors of a target, and the memory of its source, to those that predict the next subword.

In training all positions of a target are computed at once. In decoding there is one new position in
each step; keys and values of those before are kept in a cache.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from models.transformer.layers.attention import MultiHeadAttention
from models.transformer.layers.feed_forward import FeedForward
from models.transformer.layers.masks import not_later
from models.transformer.layers.residual import Residual, layer_norm
from models.transformer.params import TransformerParams

KeysAndValues = tuple[Any, Any]
"""Both (batch, length, heads, width)."""


class DecoderLayer(keras.layers.Layer):
    """Tokens look back, then at the memory; then each is transformed by itself.

    Args:
        params: Sizes and dropouts.
        **kwargs: Of the layer.
    """

    def __init__(self, params: TransformerParams, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        policy = self.dtype_policy
        sizes = (params.hidden_size, params.num_heads, params.attention_dropout)
        self.look_back = MultiHeadAttention(*sizes, dtype=policy, name="look_back")
        self.look_at_memory = MultiHeadAttention(*sizes, dtype=policy, name="look_at_memory")
        self.feed_forward = FeedForward(
            params.hidden_size, params.filter_size, params.relu_dropout, dtype=policy
        )
        self.around_back, self.around_memory, self.around_feed_forward = (
            Residual(params.hidden_size, params.layer_postprocess_dropout, dtype=policy, name=name)
            for name in ("around_back", "around_memory", "around_feed_forward")
        )

    def build(self, input_shape: Any) -> None:
        """Make all weights."""
        for layer in (
            self.look_back,
            self.look_at_memory,
            self.feed_forward,
            self.around_back,
            self.around_memory,
            self.around_feed_forward,
        ):
            layer.build(input_shape)
        self.built = True

    def call(
        self,
        vectors: Any,
        past: KeysAndValues | None,
        is_visible: Any,
        memory: KeysAndValues,
        is_memory_visible: Any,
        training: bool | None = None,
    ) -> tuple[Any, KeysAndValues]:
        """Transform the vectors of new positions.

        Args:
            vectors: Of the new positions, (batch, length, hidden).
            past: Keys and values of the positions before; None if there are none.
            is_visible: Hides later positions from new ones; None if there is one new position.
            memory: Keys and values of the source.
            is_memory_visible: Hides its padding.
            training: Whether anything is dropped.

        Returns:
            New vectors, and keys and values of all positions so far.
        """
        so_far: list[KeysAndValues] = []

        def look_back(normed: Any) -> Any:
            new = self.look_back.keys_and_values(normed)
            if past is not None:
                new = tuple(ops.concatenate(pair, axis=1) for pair in zip(past, new, strict=True))
            so_far.append(new)
            return self.look_back.attend(normed, *new, is_visible, training)

        def look_at_memory(normed: Any) -> Any:
            return self.look_at_memory.attend(normed, *memory, is_memory_visible, training)

        def transform(normed: Any) -> Any:
            return self.feed_forward(normed, training=training)

        vectors = self.around_back(vectors, sublayer=look_back, training=training)
        vectors = self.around_memory(vectors, sublayer=look_at_memory, training=training)
        return self.around_feed_forward(vectors, sublayer=transform, training=training), so_far[0]


class Decoder(keras.layers.Layer):
    """All layers of the decoder, and a last norm.

    Args:
        params: Sizes and dropouts.
        **kwargs: Of the layer.
    """

    def __init__(self, params: TransformerParams, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.layers = [
            DecoderLayer(params, dtype=self.dtype_policy, name=f"layer_{number}")
            for number in range(params.num_hidden_layers)
        ]
        self.norm = layer_norm("norm", self.dtype_policy)

    def build(self, input_shape: Any) -> None:
        """Make all weights."""
        for layer in [*self.layers, self.norm]:
            layer.build(input_shape)
        self.built = True

    def call(
        self, vectors: Any, memory: Any, is_memory_visible: Any, training: bool | None = None
    ) -> Any:
        """Return vectors that predict all positions at once, (batch, length, hidden).

        Args:
            vectors: Of the subword before each position, (batch, length, hidden).
            memory: Of the source, (batch, source length, hidden).
            is_memory_visible: Hides its padding, (batch, 1, 1, source length).
            training: Whether anything is dropped.
        """
        is_visible = not_later(ops.shape(vectors)[1])
        for layer, looked_at in zip(self.layers, self.memory_of_layers(memory), strict=True):
            vectors, _ = layer(
                vectors,
                past=None,
                is_visible=is_visible,
                memory=looked_at,
                is_memory_visible=is_memory_visible,
                training=training,
            )
        return self.norm(vectors)

    def memory_of_layers(self, memory: Any) -> list[KeysAndValues]:
        """Return keys and values of a source (batch, length, hidden) for each layer."""
        return [layer.look_at_memory.keys_and_values(memory) for layer in self.layers]

    def step(
        self,
        vectors: Any,
        cache: list[KeysAndValues],
        memory: list[KeysAndValues],
        is_memory_visible: Any,
    ) -> tuple[Any, list[KeysAndValues]]:
        """Return vectors that predict the next position, and the cache with it.

        Args:
            vectors: Of the last subword, (batch, 1, hidden).
            cache: Keys and values of the positions before for each layer; may have length 0.
            memory: Of `memory_of_layers`.
            is_memory_visible: Hides padding of the source, (batch, 1, 1, source length).
        """
        longer = []
        for layer, past, looked_at in zip(self.layers, cache, memory, strict=True):
            vectors, so_far = layer(
                vectors,
                past=past,
                is_visible=None,
                memory=looked_at,
                is_memory_visible=is_memory_visible,
                training=False,
            )
            longer.append(so_far)
        return self.norm(vectors), longer
