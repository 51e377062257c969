"""Cross entropy of class numbers, with or without smoothed labels."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="tarantella_models")
class SmoothedSparseCategoricalCrossentropy(keras.losses.Loss):
    """Cross entropy with a part s of each label spread evenly over all K classes.

        loss = -(1 - s) log p_label - s / K * sum_k log p_k,   https://arxiv.org/abs/1512.00567

    Args:
        label_smoothing: s, from 0 to less than 1.
        **kwargs: As for a Keras loss.
    """

    def __init__(self, label_smoothing: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.label_smoothing = label_smoothing

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Return the loss of each sample.

        Args:
            y_true: Class numbers (batch,) or (batch, 1).
            y_pred: Probabilities (batch, K).
        """
        num_classes = y_pred.shape[-1]
        labels = ops.one_hot(ops.cast(ops.reshape(y_true, (-1,)), "int32"), num_classes)
        labels = labels * (1.0 - self.label_smoothing) + self.label_smoothing / num_classes
        return ops.categorical_crossentropy(ops.cast(labels, y_pred.dtype), y_pred)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments. Pure."""
        return {**super().get_config(), "label_smoothing": self.label_smoothing}


def make_loss(label_smoothing: float) -> keras.losses.Loss:
    """Return the loss for `compile`. Pure.

    Args:
        label_smoothing: From 0 to less than 1; 0: Keras' own loss.
    """
    if label_smoothing == 0:
        return keras.losses.SparseCategoricalCrossentropy()
    return SmoothedSparseCategoricalCrossentropy(label_smoothing)
