"""Where tokens may look: not at padding, and not ahead."""

from __future__ import annotations

from typing import Any

from keras import ops

from models.transformer.special_tokens import PAD

HIDDEN = -1e9
"""Added to a score, it leaves a weight of exactly 0 in single precision."""


def padding_bias(tokens: Any) -> Any:
    """Return the bias that hides padding from every query.

    Args:
        tokens: Subwords (batch, length), integers.

    Returns:
        (batch, 1, 1, length), float32.
    """
    bias = ops.cast(ops.equal(tokens, PAD), "float32") * HIDDEN
    return ops.expand_dims(bias, axis=(1, 2))


def causal_bias(length: Any) -> Any:
    """Return the bias that hides later positions from earlier ones.

    Args:
        length: Of the sentences, a number or scalar tensor.

    Returns:
        (1, 1, length, length), float32.
    """
    positions = ops.arange(length)
    is_later = ops.expand_dims(positions, 0) > ops.expand_dims(positions, 1)
    return ops.expand_dims(ops.cast(is_later, "float32") * HIDDEN, axis=(0, 1))
