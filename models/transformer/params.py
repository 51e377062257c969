"""Hyper-parameters: the sets `tiny`, `base` and `big`.

`base` and `big` are the models of A. Vaswani et al., Attention Is All You Need, 2017
(https://arxiv.org/abs/1706.03762), table 3, with the batches and warm-up steps that TensorFlow's
Model Garden takes for several devices. `tiny` is for tests.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass


@dataclass(frozen=True)
class TransformerParams:
    """Of a model, its training and its decoding.

    Attributes:
        batch_size: Tokens per step, of all ranks together, on the side of the targets, padding
            included.
        hidden_size: Entries of the vector of a token.
        num_heads: Of each attention; they share `hidden_size` among themselves.
        filter_size: Inner width of the feed-forward layers.
        num_hidden_layers: Of the encoder, and of the decoder.
        vocab_size: Number of subwords, padding and end of sentence included.
        max_length: Longest sentence that is trained on, in subwords with the end of sentence.
        attention_dropout: Share of attention weights that are dropped.
        relu_dropout: Share of the inner entries of the feed-forward layers that are dropped.
        layer_postprocess_dropout: Share dropped of what each sublayer adds, and of embeddings.
        label_smoothing: Probability that is shared among all wrong subwords.
        learning_rate: Factor of the schedule.
        learning_rate_warmup_steps: Steps in which the rate rises.
        adam_beta_1: Decay of Adam's mean of gradients.
        adam_beta_2: Decay of Adam's mean of squares.
        adam_epsilon: Added to the root of these.
        beam_size: Hypotheses that beam search keeps.
        alpha: Exponent of the length penalty.
        extra_decode_length: Subwords that a translation may have more than its source.
    """

    batch_size: int
    hidden_size: int
    num_heads: int
    filter_size: int
    learning_rate_warmup_steps: int
    layer_postprocess_dropout: float = 0.1
    num_hidden_layers: int = 6
    vocab_size: int = 33786
    max_length: int = 256
    attention_dropout: float = 0.1
    relu_dropout: float = 0.1
    label_smoothing: float = 0.1
    learning_rate: float = 2.0
    adam_beta_1: float = 0.9
    adam_beta_2: float = 0.997
    adam_epsilon: float = 1e-9
    beam_size: int = 4
    alpha: float = 0.6
    extra_decode_length: int = 50

    def __post_init__(self) -> None:
        """Refuse heads of unequal width."""
        if self.hidden_size % self.num_heads != 0:
            raise ValueError(
                f"{self.num_heads} heads cannot share {self.hidden_size} entries evenly."
            )

    def replace(self, **changes: float | None) -> TransformerParams:
        """Return these parameters with some of them changed; None changes nothing.

        Args:
            **changes: New values by name.
        """
        given = {name: value for name, value in changes.items() if value is not None}
        return dataclasses.replace(self, **given)  # type: ignore[arg-type]

    def without_dropout(self) -> TransformerParams:
        """Return these parameters with nothing dropped: any number of ranks is then equal."""
        return self.replace(attention_dropout=0.0, relu_dropout=0.0, layer_postprocess_dropout=0.0)


PARAM_SETS = {
    "tiny": TransformerParams(
        batch_size=1024,
        hidden_size=32,
        num_heads=4,
        filter_size=256,
        learning_rate_warmup_steps=16000,
    ),
    "base": TransformerParams(
        batch_size=2048,
        hidden_size=512,
        num_heads=8,
        filter_size=2048,
        learning_rate_warmup_steps=8000,
    ),
    "big": TransformerParams(
        batch_size=4096,
        hidden_size=1024,
        num_heads=16,
        filter_size=4096,
        learning_rate_warmup_steps=8000,
        layer_postprocess_dropout=0.3,
    ),
}
