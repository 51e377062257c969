"""Compute the gradients of the global batch from those of the ranks."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, TypeAlias

import tensorflow as tf

from tnt_keras.collectives.channel import Allgather, Allreduce, Channel
from tnt_keras.collectives.fusion import gradient_fusion
from tnt_keras.step.context import Step
from tnt_keras.step.rules import GradientKey, Rule

Gradient: TypeAlias = "tf.Tensor | tf.IndexedSlices | None"

_TOO_LARGE_FOR_FLOAT16 = 65520.0
"""Halfway from the largest finite value, 65504, to the next one that the exponent would give."""


def gradient_channel() -> Channel:
    """Return a channel for the gradients that one optimizer applies. Local."""
    # The first gradient is started when the forward pass is done, the last one at the barrier.
    return Channel("gradients", gradient_fusion, phase="backpropagation")


@dataclasses.dataclass(frozen=True, eq=False)
class LocalGradient:
    """What one rank contributes to the gradient of a variable.

    Attributes:
        value: Of this rank's loss; None where the variable has no influence.
        name: Of the variable, for messages.
        rule: By which the gradients of ranks combine: MEAN, SUM or MAX.
        adds_up_slices: Whether the slices of a sparse gradient that have one index are added up.
        is_from_float16: Whether it was computed in float16, as a graph shows. The serial gradient
            is infinite then if the sum is too large for that type, and the step is skipped.
    """

    value: Gradient
    name: str
    rule: Rule = Rule.MEAN
    adds_up_slices: bool = False
    is_from_float16: bool = False


def local_gradients(
    gradients: Sequence[Gradient], names: Sequence[str], step: Step
) -> list[LocalGradient]:
    """Return the gradients that an optimizer is given, with the rules of the step. Local.

    Args:
        gradients: Of this rank's loss.
        names: Names of the variables.
        step: The current step, whose applications are counted.
    """
    application = step.next_application()
    keys = [GradientKey(application, position) for position in range(len(gradients))]
    return [
        LocalGradient(
            gradient,
            name,
            step.rules.gradients.get(key, Rule.MEAN),
            key in step.rules.slices_by_index,
            _is_from_float16(gradient),
        )
        for gradient, name, key in zip(gradients, names, keys, strict=True)
    ]


def global_gradients(
    gradients: Sequence[LocalGradient], is_weighted: bool, step: Step, channel: Channel
) -> list[Gradient]:
    """Return the gradients of the global batch. Collective.

    With the share n_r / n of rank r (see `Step`), the gradient g_r of its loss, and the rule

        MEAN    g = sum_r (n_r / n) * g_r
        SUM     g = sum_r g_r
        MAX     g = max_r g_r   (for gradients that are a new value, not a slope)

    A loss that `scale_loss` has multiplied by the share has the gradient (n_r / n) * g_r.

    Dense gradients are summed in buckets while backpropagation still runs. Sparse ones
    (`tf.IndexedSlices`, from embeddings) are concatenated, scaled alike: several Keras optimizers
    treat two slices of one row differently from their sum, so that summing them would not give the
    serial result. Where the serial step has each index once, however large its batch is (an
    embedding of positions, looked up once for all samples), the slices of one index are added up.

    Args:
        gradients: Of this rank.
        is_weighted: Whether the loss was multiplied by the share. Where a rank's weight is 0 its
            gradients count as 0, also if they are not finite.
        step: The current step.
        channel: As `gradient_channel` makes it.

    Returns:
        One gradient for each given one, of the same kind; None stays None.
    """
    collectives = [_collectives(gradient, is_weighted, step) for gradient in gradients]
    results = step.exchange(channel, collectives)
    return [
        _combined(gradient, result) for gradient, result in zip(gradients, results, strict=True)
    ]


def _is_from_float16(gradient: Gradient) -> bool:
    if tf.executing_eagerly() or not isinstance(gradient, tf.Tensor):
        return False
    operation = gradient.op
    return bool(operation.type == "Cast" and operation.inputs[0].dtype == tf.float16)


def _overflowing(gradient: tf.Tensor) -> tf.Tensor:
    """Return a gradient with infinity where float16 has no finite value near it."""
    infinite = tf.sign(gradient) * tf.constant(float("inf"), gradient.dtype)
    return tf.where(tf.abs(gradient) >= _TOO_LARGE_FOR_FLOAT16, infinite, gradient)


def weight_of_rank(rule: Rule, is_weighted: bool, step: Step) -> tf.Tensor:
    """Return the float64 scalar by which a rank's gradient is multiplied before the sum. Local.

    Args:
        rule: MEAN or SUM, as for `global_gradients`.
        is_weighted: As for `global_gradients`.
        step: The current step.
    """
    if rule is Rule.SUM:
        return tf.math.divide_no_nan(step.presence, step.share) if is_weighted else step.presence
    return step.presence if is_weighted else step.share


def _collectives(gradient: LocalGradient, is_weighted: bool, step: Step) -> Any:
    """Return the collectives of a gradient: a sum, two of values and indices, or none."""
    value, name = gradient.value, gradient.name
    if value is None:
        return None
    if gradient.rule is Rule.MAX:
        return Allgather(name, tf.convert_to_tensor(value)[tf.newaxis], step.presence)
    weight = weight_of_rank(gradient.rule, is_weighted, step)
    if isinstance(value, tf.IndexedSlices):
        values = value.values * tf.cast(weight, value.values.dtype)
        return (
            Allgather(f"{name}/values", values, step.presence),
            Allgather(f"{name}/indices", value.indices, step.presence),
        )
    return Allreduce(name, value, weight)


def _combined(gradient: LocalGradient, result: Any) -> Gradient:
    value = gradient.value
    if value is not None and gradient.rule is Rule.MAX:
        return tf.ensure_shape(tf.reduce_max(result, axis=0), value.shape)
    if not isinstance(value, tf.IndexedSlices):
        return _overflowing(result) if gradient.is_from_float16 else result
    values, indices = result
    if gradient.adds_up_slices:
        unique, slot = tf.unique(indices)
        values = tf.math.unsorted_segment_sum(values, slot, tf.size(unique))
        indices = unique
    return tf.IndexedSlices(values, indices, dense_shape=value.dense_shape)
