"""Cross entropy with smoothed labels, of the subwords that are no padding."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from models.transformer.special_tokens import PAD


@keras.saving.register_keras_serializable("tnt_models")
class LabelSmoothedCrossentropy(keras.losses.Loss):
    r"""Mean cross entropy per subword, padding left out.

    The label of a subword is the distribution q that gives 1 - s to the right subword and shares s
    among the V - 1 others (https://arxiv.org/abs/1512.00567, section 7). With the predicted
    distribution p

        loss = sum_tokens [ -sum_k q_k log p_k + sum_k q_k log q_k ] / number of tokens,

    so that a perfect prediction has the loss 0. Padding has the sample weight 0, and Keras divides
    by the sum of the sample weights: ranks with unequal numbers of tokens then give the serial
    loss.

    Args:
        smoothing: s, in [0, 1).
        reduction: Of Keras; a mean over sample weights.
        name: Of the loss.
        dtype: In which it is computed.
    """

    def __init__(
        self,
        smoothing: float = 0.1,
        reduction: str = "mean_with_sample_weight",
        name: str = "label_smoothed_crossentropy",
        dtype: Any = None,
    ) -> None:
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        if not 0.0 <= smoothing < 1.0:
            raise ValueError(f"The label smoothing must be in [0, 1), not {smoothing}.")
        self.smoothing = smoothing

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """Return the loss of a batch.

        Args:
            y_true: Subwords (batch, length), integers; 0 is padding.
            y_pred: Logits (batch, length, vocabulary).
            sample_weight: Of the subwords, (batch, length) or (batch, 1); 1 without it.
        """
        weight = ops.cast(ops.not_equal(y_true, PAD), self.dtype)
        if sample_weight is not None:
            weight = weight * ops.cast(sample_weight, self.dtype)
        return super().__call__(y_true, y_pred, weight)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Return the cross entropy of each subword, (batch, length)."""
        vocab_size = y_pred.shape[-1]
        confidence = 1.0 - self.smoothing
        of_others = self.smoothing / (vocab_size - 1)
        log_sum = ops.logsumexp(y_pred, axis=-1)
        targets = ops.expand_dims(ops.cast(y_true, "int32"), axis=-1)
        of_target = log_sum - ops.squeeze(ops.take_along_axis(y_pred, targets, axis=-1), axis=-1)
        of_all = vocab_size * log_sum - ops.sum(y_pred, axis=-1)  # -sum_k log p_k
        entropy = _x_log_x(confidence) + (vocab_size - 1) * _x_log_x(of_others)
        return (confidence - of_others) * of_target + of_others * of_all + entropy

    def get_config(self) -> dict[str, Any]:
        """Return the arguments, for saving."""
        return {**super().get_config(), "smoothing": self.smoothing}


def _x_log_x(x: float) -> float:
    return x * math.log(x) if x > 0.0 else 0.0
