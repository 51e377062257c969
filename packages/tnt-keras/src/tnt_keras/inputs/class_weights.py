"""Turn class weights into sample weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

ClassWeight = dict[int, float] | None
"""Weights by class, as for `fit`."""


def class_weight_function(class_weight: dict[int, float]) -> Callable[[Any], Any]:
    """Return a function that gives samples the weights of their classes. Local.

    Args:
        class_weight: Weights by class, as for `fit`; 1 for others.

    Returns:
        Function from a batch `(x, y)` to `(x, y, sample_weight)`. It raises `ValueError` if there
        are weights already, or several targets.
    """
    table = tf.constant(
        [class_weight.get(label, 1.0) for label in range(max(class_weight) + 1)], tf.float32
    )

    def weigh(batch: Any) -> tuple[Any, Any, tf.Tensor]:
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(batch)
        if sample_weight is not None:
            raise ValueError("`class_weight` and sample weights cannot be used together.")
        if not tf.is_tensor(y):
            raise ValueError("`class_weight` needs a model with a single output.")
        labels = y
        if y.shape.rank >= 2:
            labels = tf.argmax(y, -1) if y.shape[-1] != 1 else tf.squeeze(y, -1)
        labels = tf.cast(tf.round(labels) if labels.dtype.is_floating else labels, tf.int32)
        return x, y, tf.gather(table, labels)

    return weigh
