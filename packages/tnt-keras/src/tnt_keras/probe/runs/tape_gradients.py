"""Notice whether a step changes the gradients of the tape before an optimizer gets them.

Parts of the batch give the serial gradients only if what follows is linear. Clipping is not, but
seems so while gradients are below its bound, as they may be in the first steps. So a step that
changes gradients is also run with much larger ones.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf

from tnt_keras.keras_hooks.patch import replaced

AMPLIFICATION = 2.0**20
"""Of gradients; a power of two, so that nothing is rounded."""

_LARGEST_OF_FLOAT16 = 2.0**4


class TapeGradients:
    """The gradients that tapes give for variables during one run of a step.

    Args:
        amplification: What they are multiplied by (those of float16 by 16 at most).

    Attributes:
        are_amplified: Whether that is anything but 1.
    """

    def __init__(self, amplification: float = 1.0) -> None:
        self._amplification = amplification
        self.are_amplified = amplification != 1
        self._given: list[Any] = []

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Remember, and multiply, what `GradientTape.gradient` returns in a with-block. Local."""
        plain_gradient = tf.GradientTape.gradient

        def gradient(tape: Any, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
            gradients = plain_gradient(tape, target, sources, *args, **kwargs)
            leaves = tf.nest.flatten(sources)
            if any(isinstance(leaf, (tf.Variable, keras.Variable)) for leaf in leaves):
                gradients = tf.nest.map_structure(self._amplified, gradients)
                self._given += tf.nest.flatten(gradients)
            return gradients

        with replaced(tf.GradientTape, "gradient", gradient):
            yield

    def include(self, gradient: Any) -> bool:
        """Return whether a gradient is one that a tape gave, unchanged. Local.

        Args:
            gradient: A tensor or `tf.IndexedSlices`.
        """
        return any(gradient is given for given in self._given)

    def _amplified(self, gradient: Any) -> Any:
        if gradient is None or not self.are_amplified:
            return gradient
        factor = self._amplification
        if gradient.dtype == tf.float16:
            factor = min(factor, _LARGEST_OF_FLOAT16)
        return _multiplied(gradient, tf.cast(factor, gradient.dtype))


def _multiplied(gradient: Any, factor: tf.Tensor) -> Any:
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(gradient.values * factor, gradient.indices, gradient.dense_shape)
    return gradient * factor
