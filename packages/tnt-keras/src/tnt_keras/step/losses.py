"""Correct losses whose denominator is not the number of samples.

A rank's mean loss enters the global one with the weight n_r / n (see `Step`). That is right for
every loss that divides by the number of samples. A loss that divides by something else, d_r, is

    L = sum_r N_r / sum_r d_r = sum_r (n_r / n) * c_r * L_r,    L_r = N_r / d_r,

with the correction

    c_r = (d_r / sum_r d_r) / (n_r / n).

Which d_r Keras uses depends on the loss' reduction:

    "sum_over_batch_size", "mean"   number of samples (c_r = 1), or of valid entries with a mask
    "mean_with_sample_weight"       sum of the sample weights, times the mask
    "sum"                           1 on the whole, so that c_r = n / n_r
    None, "none"                    no denominator: the step reduces the values itself (c_r = 1)

A step that divides a sum by the number of its samples itself needs c_r = 1 for it. A loss that
gives one number for all its samples, and what a layer hands to `add_loss`, is taken for a mean over
samples (c_r = 1), or for a sum (c_r = n / n_r), such as one that is divided by a fixed size of the
batch. All that is among the rules of a step (`step.rules`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf

from tnt_keras.collectives.channel import Allreduce, Channel
from tnt_keras.keras_hooks.patch import replaced
from tnt_keras.keras_hooks.private import mask_of
from tnt_keras.process.log import logger
from tnt_keras.step.context import Step, current_step
from tnt_keras.step.rules import LossCorrection, Rule

_MEANS = ("sum_over_batch_size", "mean")


def check_reductions(losses: Any) -> None:
    """Refuse losses for `compile` that have no sum over ranks. Local.

    Args:
        losses: The structure of losses given to `compile`.

    Raises:
        ValueError: If a loss does not reduce its values.
    """
    for loss in keras.tree.flatten(losses):
        if isinstance(loss, keras.losses.Loss) and loss.reduction in (None, "none"):
            raise ValueError(
                f"The loss {loss.name!r} has reduction={loss.reduction!r}: it gives one value per "
                "sample, whose sum over ranks is not defined. Use reduction='sum' or "
                "'sum_over_batch_size'."
            )


@contextlib.contextmanager
def corrected_losses(step: Step, channel: Channel) -> Iterator[None]:
    """Correct every Keras loss that is computed inside a with-block. Local.

    It covers the losses given to `compile` as well as those that a user's `train_step` calls.

    Args:
        step: The current step.
        channel: Sums the denominators.
    """
    keras_call = keras.losses.Loss.__call__

    def call(loss: Any, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        if current_step() is not step:  # another thread, or a step inside of this one
            return keras_call(loss, y_true, y_pred, sample_weight)
        rule = step.rules.losses.get(step.next_loss(), Rule.MEAN)
        if rule is Rule.SUM:
            return _as_sum(keras_call(loss, y_true, y_pred, sample_weight), step)
        if not _is_corrected(loss, step):
            return keras_call(loss, y_true, y_pred, sample_weight)
        with _recorded_mask(loss, step) as output_masks:
            value = keras_call(loss, y_true, y_pred, sample_weight)
        masks = [mask_of(y_pred) if tf.is_tensor(y_pred) else None, *output_masks]
        correction = _correction(loss, sample_weight, masks, step, channel)
        return value if correction is None else value * tf.cast(correction, value.dtype)

    with replaced(keras.losses.Loss, "__call__", call):
        yield


@contextlib.contextmanager
def scaled_additional_losses(step: Step) -> Iterator[None]:
    """Scale what layers hand to `add_loss` in a with-block if it is a sum over samples. Local.

    Args:
        step: The current step, with its rules.
    """
    plain_add_loss = keras.layers.Layer.add_loss

    def add_loss(layer: Any, loss: Any) -> None:
        if current_step() is step:
            rule = step.rules.additional_losses.get(step.next_additional_loss(), Rule.MEAN)
            if rule is Rule.SUM:
                loss = keras.tree.map_structure(lambda leaf: _as_sum(leaf, step), loss)
        plain_add_loss(layer, loss)

    with replaced(keras.layers.Layer, "add_loss", add_loss):
        yield


def _as_sum(value: tf.Tensor, step: Step) -> tf.Tensor:
    """Return a sum over this rank's samples, such that the mean over ranks is the whole sum."""
    return value * tf.cast(_divide(tf.ones([], tf.float64), step.share), value.dtype)


def _is_corrected(loss: Any, step: Step) -> bool:
    correction = step.rules.loss_correction
    if correction is LossCorrection.NOT_SUMS:
        return bool(loss.reduction != "sum")
    return correction is LossCorrection.ALL


@contextlib.contextmanager
def _recorded_mask(loss: Any, step: Step) -> Iterator[list[Any]]:
    """Collect the mask that `loss.call` attaches to its values (`ignore_class`, say)."""
    masks: list[Any] = []
    plain_call = loss.call

    def call(y_true: Any, y_pred: Any) -> Any:
        num_before = step.num_batch_operations
        values = plain_call(y_true, y_pred)
        masks.append(mask_of(values))
        sees_batch = step.num_batch_operations > num_before  # through `tnt.batch_mean`, say
        is_doubtful = not (sees_batch or step.rules.are_proved)
        if values.shape.rank == 0 and loss.reduction != "sum" and is_doubtful:
            logger.warning(
                "The loss %r gives one value for all samples that it gets. Each rank computes it "
                "from its own samples, and the mean over ranks is taken: that is the serial loss "
                "only if it is a mean over samples. Let it give one value per sample, or compute "
                "it from the whole batch by `tnt.batch_mean`, `tnt.batch_sum` or "
                "`tnt.gather_batch`.",
                loss.name,
            )
        return values

    with replaced(loss, "call", call):
        yield masks


def _correction(
    loss: Any,
    sample_weight: Any,
    masks: list[Any],
    step: Step,
    channel: Channel,
) -> tf.Tensor | None:
    if loss.reduction == "sum":
        return _divide(tf.ones([], tf.float64), step.share)
    if loss.reduction not in (*_MEANS, "mean_with_sample_weight"):
        return None  # one value for each sample, of which the step makes what it wants
    mask = _combined_mask(masks)
    if loss.reduction in _MEANS:
        sample_weight = None
    denominator = _denominator(sample_weight, mask)
    if denominator is None:
        return None
    summand = Allreduce(f"{loss.name}/denominator", denominator, step.presence)
    [total] = step.exchange(channel, [summand])
    return _divide(_divide(denominator, total), step.share)


def _combined_mask(masks: list[Any]) -> tf.Tensor | None:
    present = [tf.cast(mask, tf.bool) for mask in masks if mask is not None]
    if not present:
        return None
    return present[0] if len(present) == 1 else tf.logical_and(*present)


def _denominator(sample_weight: Any, mask: tf.Tensor | None) -> tf.Tensor | None:
    """Return what this rank's loss is divided by, None if that is the number of samples."""
    if mask is None and sample_weight is None:
        return None
    if mask is None:
        return tf.reduce_sum(tf.cast(sample_weight, tf.float64))
    valid = tf.cast(mask, tf.float64)
    if sample_weight is not None:
        valid, sample_weight = _of_equal_rank(valid, tf.cast(sample_weight, tf.float64))
        valid = valid * sample_weight
    return tf.reduce_sum(valid)


def _of_equal_rank(a: tf.Tensor, b: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Drop or add a last dimension of size 1, as Keras does for masks and sample weights."""
    if a.shape.rank == b.shape.rank + 1:
        return (tf.squeeze(a, -1), b) if a.shape[-1] == 1 else (a, b)
    if b.shape.rank == a.shape.rank + 1:
        return (a, tf.squeeze(b, -1)) if b.shape[-1] == 1 else (a, b)
    return a, b


def _divide(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """Return a / b, and 0 where b is 0: a rank without samples contributes nothing in any case."""
    return tf.math.divide_no_nan(a, b)
