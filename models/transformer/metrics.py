"""What `--enable_metrics_in_training` logs beside the loss; padding counts nowhere.

Each is a `keras.metrics.Mean`, whose sums and counts ranks add up: the values are those of all
samples.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from models.transformer.special_tokens import PAD


def make_metrics() -> list[keras.metrics.Metric]:
    """Return the four metrics of training, new ones."""
    return [Accuracy(), AccuracyTop5(), AccuracyPerSequence(), NegLogPerplexity()]


@keras.saving.register_keras_serializable("tnt_models")
class Accuracy(keras.metrics.Mean):
    """Share of subwords that are predicted right."""

    def __init__(self, name: str = "accuracy", dtype: Any = None) -> None:
        super().__init__(name=name, dtype=dtype)

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """Add a batch of subwords (batch, length) and logits (batch, length, vocabulary)."""
        return super().update_state(is_right(y_true, y_pred), is_token(y_true))


@keras.saving.register_keras_serializable("tnt_models")
class AccuracyTop5(keras.metrics.Mean):
    """Share of subwords that are among the five most probable."""

    def __init__(self, name: str = "accuracy_top5", dtype: Any = None) -> None:
        super().__init__(name=name, dtype=dtype)

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """Add a batch of subwords (batch, length) and logits (batch, length, vocabulary)."""
        number = min(5, y_pred.shape[-1])
        best = ops.top_k(y_pred, number, sorted=False)[1]
        targets = ops.expand_dims(ops.cast(y_true, best.dtype), axis=-1)
        hits = ops.any(ops.equal(best, targets), axis=-1)
        return super().update_state(ops.cast(hits, "float32"), is_token(y_true))


@keras.saving.register_keras_serializable("tnt_models")
class AccuracyPerSequence(keras.metrics.Mean):
    """Share of sentences whose subwords are all predicted right."""

    def __init__(self, name: str = "accuracy_per_sequence", dtype: Any = None) -> None:
        super().__init__(name=name, dtype=dtype)

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """Add a batch of subwords (batch, length) and logits (batch, length, vocabulary)."""
        wrong = (1.0 - is_right(y_true, y_pred)) * is_token(y_true)
        is_all_right = ops.cast(ops.equal(ops.sum(wrong, axis=-1), 0.0), "float32")
        return super().update_state(is_all_right, ops.max(is_token(y_true), axis=-1))


@keras.saving.register_keras_serializable("tnt_models")
class NegLogPerplexity(keras.metrics.Mean):
    """Mean logarithm of the probability of the right subword, without label smoothing."""

    def __init__(self, name: str = "neg_log_perplexity", dtype: Any = None) -> None:
        super().__init__(name=name, dtype=dtype)

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """Add a batch of subwords (batch, length) and logits (batch, length, vocabulary)."""
        targets = ops.cast(y_true, "int32")
        crossentropy = ops.sparse_categorical_crossentropy(targets, y_pred, from_logits=True)
        return super().update_state(-crossentropy, is_token(y_true))


def is_token(y_true: Any) -> Any:
    """Return 1 for subwords and 0 for padding, of the shape of `y_true`."""
    return ops.cast(ops.not_equal(y_true, PAD), "float32")


def is_right(y_true: Any, y_pred: Any) -> Any:
    """Return 1 where the most probable subword is the right one, of the shape of `y_true`."""
    predicted = ops.argmax(y_pred, axis=-1)
    return ops.cast(ops.equal(predicted, ops.cast(y_true, predicted.dtype)), "float32")
