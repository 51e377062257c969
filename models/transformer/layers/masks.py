"""Where tokens may look: not at padding, and not ahead."""

from __future__ import annotations

from typing import Any

from keras import ops

from models.transformer.special_tokens import PAD


def not_padding(tokens: Any) -> Any:
    """Return what every query may look at.

    Args:
        tokens: Subwords (batch, length), integers.

    Returns:
        (batch, 1, 1, length), booleans.
    """
    return ops.expand_dims(ops.not_equal(tokens, PAD), axis=(1, 2))


def not_later(length: Any) -> Any:
    """Return what each position may look at: itself and those before it.

    Args:
        length: Of the sentences, a number or scalar tensor.

    Returns:
        (1, 1, length, length), booleans.
    """
    positions = ops.arange(length)
    is_visible = ops.expand_dims(positions, 0) <= ops.expand_dims(positions, 1)
    return ops.expand_dims(is_visible, axis=(0, 1))
