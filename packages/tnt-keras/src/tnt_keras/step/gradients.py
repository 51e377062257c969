"""Compute the gradients of the global batch from those of the ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import tensorflow as tf

from tnt_keras.collectives.channel import Allgather, Allreduce, Channel
from tnt_keras.collectives.fusion import gradient_fusion
from tnt_keras.step.context import Step

Gradient: TypeAlias = "tf.Tensor | tf.IndexedSlices | None"


def gradient_channel() -> Channel:
    """Return a channel for the gradients that one optimizer applies. Local."""
    # The first gradient is started when the forward pass is done, the last one at the barrier.
    return Channel("gradients", gradient_fusion, phase="backpropagation")


def global_gradients(
    gradients: Sequence[Gradient],
    names: Sequence[str],
    weight: tf.Tensor,
    step: Step,
    channel: Channel,
) -> list[Gradient]:
    """Return the gradients of the global batch. Collective.

    With the share n_r / n of rank r (see `Step`),

        g = sum_r (n_r / n) * g_r.

    Dense gradients are summed in buckets while backpropagation still runs. Sparse ones
    (`tf.IndexedSlices`, from embeddings) are concatenated, scaled alike: several Keras optimizers
    treat two slices of one row differently from their sum, so that summing them would not give the
    serial result.

    Args:
        gradients: Of this rank's loss; None where a variable has no influence.
        names: Names of the variables, for messages.
        weight: float64 scalar by which they still have to be multiplied: the share, or the presence
            if the loss was multiplied by the share. Where it is 0 they count as 0, also if they are
            not finite.
        step: The current step.
        channel: As `gradient_channel` makes it.

    Returns:
        One gradient for each given one, of the same kind; None stays None.
    """
    collectives = [
        _collectives(gradient, name, weight, step)
        for gradient, name in zip(gradients, names, strict=True)
    ]
    results = step.exchange(channel, collectives)
    return [_like(gradient, result) for gradient, result in zip(gradients, results, strict=True)]


def _collectives(gradient: Gradient, name: str, weight: tf.Tensor, step: Step) -> Any:
    """Return what a gradient takes: one sum, values and indices of all ranks, or nothing."""
    if gradient is None:
        return None
    if isinstance(gradient, tf.IndexedSlices):
        values = gradient.values * tf.cast(weight, gradient.values.dtype)
        return (
            Allgather(f"{name}/values", values, step.presence),
            Allgather(f"{name}/indices", gradient.indices, step.presence),
        )
    return Allreduce(name, gradient, weight)


def _like(gradient: Gradient, result: Any) -> Gradient:
    if isinstance(gradient, tf.IndexedSlices):
        values, indices = result
        return tf.IndexedSlices(values, indices, dense_shape=gradient.dense_shape)
    return result
