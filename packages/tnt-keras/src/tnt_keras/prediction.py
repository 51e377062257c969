"""The predictions of the global batch, in its order, on every rank."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

import tnt_comm
from tnt_keras import ops
from tnt_keras.step import Step


class PredictionGather:
    """Collects the predictions of all ranks, step by step.

    Rank r predicts rows r, r + n, ... of a global batch of B rows on n ranks. In the concatenation
    by rank, row p of the batch is the row p // n of rank p mod n, and the first row of rank r is

        sum_{q < r} ceil((B - q) / n).

    Args:
        size: Number of ranks.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._gatherers: list[tnt_comm.Gatherer] = []

    def gather(self, outputs: Any, step: Step) -> Any:
        """Returns the predictions for the global batch. Collective.

        Args:
            outputs: Structure of tensors of shape `(rows of this rank, ...)`.
            step: The current step.

        Returns:
            The structure, with tensors of shape `(rows of the global batch, ...)`.
        """
        leaves = keras.tree.flatten(outputs)
        for leaf in leaves:
            if not isinstance(leaf, tf.Tensor) or leaf.dtype == tf.string:
                raise TypeError(
                    "Only dense numeric predictions can be collected over ranks. "
                    f"Received: {leaf!r}."
                )
        while len(self._gatherers) < len(leaves):
            self._gatherers.append(tnt_comm.Gatherer(f"predictions {len(self._gatherers)}"))
        # A rank without samples has predicted a stand-in row.
        rows = [leaf[: step.num_local] for leaf in leaves]
        pairs = list(zip(rows, self._gatherers, strict=False))
        barrier = step.barrier([ops.start_gather(tensor, gatherer) for tensor, gatherer in pairs])
        by_rank = [ops.finish_gather(tensor, barrier, gatherer) for tensor, gatherer in pairs]
        step.close_group(by_rank)
        order = batch_order(step.num_global, self._size)
        return keras.tree.pack_sequence_as(outputs, [tf.gather(leaf, order) for leaf in by_rank])


def batch_order(num_rows: tf.Tensor, size: int) -> tf.Tensor:
    """Where the rows of a batch are in the concatenation of `batch[r::size]` for all r. Local.

    Args:
        num_rows: int64 scalar, rows of the batch.
        size: Number of ranks.

    Returns:
        int64 tensor of shape `(num_rows,)`, to be used as `tf.gather(concatenation, order)`.
    """
    ranks = tf.range(tf.constant(size, tf.int64))
    counts = tf.maximum(num_rows - ranks + size - 1, 0) // size
    first_rows = tf.cumsum(counts, exclusive=True)
    positions = tf.range(num_rows)
    return tf.gather(first_rows, positions % size) + positions // size
