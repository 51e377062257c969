"""The gradients of the global batch from those of the ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import tensorflow as tf

import tnt_comm
from tnt_keras.collectives import ops
from tnt_keras.collectives.fusion import gradient_fusion
from tnt_keras.collectives.reduction import ReductionCache
from tnt_keras.step.context import Step

Gradient: TypeAlias = "tf.Tensor | tf.IndexedSlices | None"


class GradientExchange:
    """Turns the gradients of this rank's samples into those of the global batch.

    With the share n_r / n of rank r (see `Step`),

        g = sum_r (n_r / n) * g_r.

    Dense gradients are summed in buckets while backpropagation still runs. Sparse ones
    (`tf.IndexedSlices`, from embeddings) are concatenated, scaled alike: several Keras optimizers
    treat two slices of one row differently from their sum, so that summing them would not give the
    serial result.
    """

    def __init__(self) -> None:
        # The first gradient is started when the forward pass is done, the last one at the barrier.
        self._reductions = ReductionCache("gradients", gradient_fusion, phase="backpropagation")
        self._gatherers: dict[str, tnt_comm.Gatherer] = {}

    def exchange(
        self,
        gradients: Sequence[Gradient],
        names: Sequence[str],
        weight: tf.Tensor,
        step: Step,
    ) -> list[Gradient]:
        """Returns the gradients of the global batch. Collective.

        Args:
            gradients: Of this rank's loss; None where a variable has no influence.
            names: Names of the variables, for messages.
            weight: float64 scalar by which they still have to be multiplied: the share, or the
                presence if the loss was multiplied by the share. Where it is 0 they count as 0,
                also if they are not finite.
            step: The current step.

        Returns:
            One gradient for each given one, of the same kind; None stays None.
        """
        dense = [i for i, gradient in enumerate(gradients) if _is_dense(gradient)]
        values = [gradients[i] for i in dense]
        sparse = [_scaled(g, weight) if isinstance(g, tf.IndexedSlices) else g for g in gradients]
        rows = [
            (f"{names[i]}/{part}", tensor)
            for i, gradient in enumerate(sparse)
            if isinstance(gradient, tf.IndexedSlices)
            for part, tensor in (("values", gradient.values), ("indices", gradient.indices))
        ]

        reduction = self._reductions.get([names[i] for i in dense], values) if dense else None
        tokens, pending = reduction.start(values, [weight] * len(values)) if reduction else ([], [])
        tokens += [
            ops.start_gather(tensor, step.presence, self._gatherer(name)) for name, tensor in rows
        ]
        if not tokens:
            return list(gradients)

        barrier = step.barrier(tokens)
        sums = reduction.finish(pending, barrier) if reduction else []
        gathered = [
            ops.finish_gather(tensor, barrier, self._gatherer(name)) for name, tensor in rows
        ]
        step.close_group([*sums, *gathered])

        result: list[Gradient] = list(sparse)
        for i, total in zip(dense, sums, strict=True):
            result[i] = total
        pairs = iter(gathered)
        for i, gradient in enumerate(sparse):
            if isinstance(gradient, tf.IndexedSlices):
                result[i] = tf.IndexedSlices(
                    values=next(pairs), indices=next(pairs), dense_shape=gradient.dense_shape
                )
        return result

    def _gatherer(self, name: str) -> tnt_comm.Gatherer:
        if name not in self._gatherers:
            self._gatherers[name] = tnt_comm.Gatherer(name)
        return self._gatherers[name]


def _is_dense(gradient: Gradient) -> bool:
    return gradient is not None and not isinstance(gradient, tf.IndexedSlices)


def _scaled(gradient: tf.IndexedSlices, weight: tf.Tensor) -> tf.IndexedSlices:
    return tf.IndexedSlices(
        values=gradient.values * tf.cast(weight, gradient.values.dtype),
        indices=gradient.indices,
        dense_shape=gradient.dense_shape,
    )
