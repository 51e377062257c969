"""The Transformer: encoder, decoder, and the embedding that they share."""

from __future__ import annotations

import dataclasses
from typing import Any

import keras
from keras import ops

from models.transformer.layers.decoder import Decoder, KeysAndValues
from models.transformer.layers.embedding import SharedEmbedding, sinusoidal_vectors
from models.transformer.layers.encoder import Encoder
from models.transformer.layers.masks import not_padding
from models.transformer.params import TransformerParams


@keras.saving.register_keras_serializable("tnt_models")
class Transformer(keras.layers.Layer):
    """Of A. Vaswani et al., Attention Is All You Need, 2017 (https://arxiv.org/abs/1706.03762).

    Norms come before the sublayers and not after them, as in the authors' own code.

    Args:
        params: Sizes and dropouts; the other parameters are kept with them.
        **kwargs: Of the layer.
    """

    def __init__(self, params: TransformerParams, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.params = params
        policy = self.dtype_policy
        self.embedding = SharedEmbedding(
            params.vocab_size, params.hidden_size, dtype=policy, name="embedding"
        )
        self.encoder = Encoder(params, dtype=policy, name="encoder")
        self.decoder = Decoder(params, dtype=policy, name="decoder")
        rate = params.layer_postprocess_dropout
        self.drop_source, self.drop_target = (
            keras.layers.Dropout(rate, dtype=policy) for _ in range(2)
        )

    def build(self, input_shape: Any) -> None:
        """Make all weights, which depend on the parameters alone."""
        self.embedding.build((None, None))
        shape = (None, None, self.params.hidden_size)
        self.encoder.build(shape)
        self.decoder.build(shape)
        self.built = True

    def call(self, sources: Any, targets: Any, training: bool | None = None) -> Any:
        """Predict each subword of the targets from the source and the subwords before it.

        Args:
            sources: Subwords (batch, source length), integers; 0 is padding.
            targets: Subwords (batch, length), integers, not shifted.
            training: Whether anything is dropped.

        Returns:
            Logits (batch, length, vocabulary), float32.
        """
        memory, is_memory_visible = self.encode(sources, training)
        # The first subword is predicted from zeros, each later one from those before it.
        before = ops.pad(self.embedding(targets)[:, :-1], [[0, 0], [1, 0], [0, 0]])
        vectors = self.drop_target(self._with_positions(before), training=training)
        vectors = self.decoder(vectors, memory, is_memory_visible, training=training)
        return self.embedding.logits(vectors)

    def encode(self, sources: Any, training: bool | None = None) -> tuple[Any, Any]:
        """Return the memory (batch, length, hidden) of sources, and what of it is visible."""
        is_visible = not_padding(sources)
        vectors = self._with_positions(self.embedding(sources))
        vectors = self.drop_source(vectors, training=training)
        return self.encoder(vectors, is_visible, training=training), is_visible

    def step(
        self,
        tokens: Any,
        position: Any,
        cache: list[KeysAndValues],
        memory: list[KeysAndValues],
        is_memory_visible: Any,
    ) -> tuple[Any, list[KeysAndValues]]:
        """Predict one position from the subword before it; nothing is dropped.

        Args:
            tokens: The last subword of each target, (batch,); 0 at the beginning.
            position: Of the subword that is predicted, from 0; a scalar.
            cache: Keys and values of the positions before for each layer.
            memory: Of `self.decoder.memory_of_layers`.
            is_memory_visible: Hides padding of the source.

        Returns:
            Logits (batch, vocabulary), float32, and the cache with this position.
        """
        vectors = self.embedding(ops.expand_dims(tokens, axis=1))
        vectors = self._add_positions(vectors, ops.expand_dims(position, axis=0))
        vectors, cache = self.decoder.step(vectors, cache, memory, is_memory_visible)
        return self.embedding.logits(vectors[:, 0]), cache

    def empty_cache(self, batch_size: Any) -> list[KeysAndValues]:
        """Return the cache before the first position of `batch_size` targets."""
        params = self.params
        width = params.hidden_size // params.num_heads
        none = ops.zeros((batch_size, 0, params.num_heads, width), dtype=self.compute_dtype)
        return [(none, none) for _ in range(params.num_hidden_layers)]

    def _with_positions(self, vectors: Any) -> Any:
        return self._add_positions(vectors, ops.arange(ops.shape(vectors)[1]))

    def _add_positions(self, vectors: Any, positions: Any) -> Any:
        """Add the vectors of positions (length,) to those of subwords (batch, length, hidden)."""
        waves = sinusoidal_vectors(positions, self.params.hidden_size)
        return vectors + ops.cast(waves, self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments, for saving."""
        return {**super().get_config(), "params": dataclasses.asdict(self.params)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Transformer:
        """Return a network like the one that was saved.

        Args:
            config: What `get_config` returned.
        """
        params = TransformerParams(**config.pop("params"))
        return cls(params, **config)
