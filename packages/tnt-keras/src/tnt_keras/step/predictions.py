"""Collect the predictions of the global batch, in its order, on every rank."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tnt_keras.collectives.channel import Allgather, Channel
from tnt_keras.collectives.checks import require
from tnt_keras.step.context import Step


class PredictionGather:
    """Collect the predictions of all ranks, step by step.

    Rank r predicts rows r, r + n, ... of a global batch of B rows on n ranks. In the concatenation
    by rank, row p of the batch is the row p // n of rank p mod n, and the first row of rank r is

        sum_{q < r} ceil((B - q) / n).

    A model may give several rows for each sample; they stay together.

    Args:
        size: Number of ranks.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._channel = Channel("predictions")

    def gather(self, outputs: Any, step: Step) -> Any:
        """Return the predictions for the global batch. Collective.

        What does not depend on samples, by the rules of the step, stays as it is.

        Args:
            outputs: Structure of tensors of shape `(k * samples of this rank, ...)`, the other
                dimensions equal on all ranks, with any whole number k.
            step: The current step.

        Returns:
            The structure, with tensors of shape `(k * samples of the global batch, ...)`.

        Raises:
            TypeError: If an output is not a dense numeric tensor.
            ValueError: When the step runs, if outputs have other shapes; see `require`.
        """
        leaves = keras.tree.flatten(outputs)
        for leaf in leaves:
            _require_rows(leaf)
        rows_per_sample = [
            None if index in step.rules.same_outputs else _rows_per_sample(leaf, step)
            for index, leaf in enumerate(leaves)
        ]
        # A rank without samples has predicted for a duplicate, and sends nothing.
        by_rank = step.exchange(
            self._channel,
            [
                None if k is None else Allgather(f"predictions {index}", leaf, step.presence)
                for index, (leaf, k) in enumerate(zip(leaves, rows_per_sample, strict=True))
            ],
        )
        order = batch_order(step.num_global, self._size)
        ordered = [
            leaf if k is None else _in_order(rows, k, order)
            for leaf, rows, k in zip(leaves, by_rank, rows_per_sample, strict=True)
        ]
        return keras.tree.pack_sequence_as(outputs, ordered)


def _require_rows(output: Any) -> None:
    if not is_dense(output):
        kind = f"a {type(output).__name__}"
        remedy = (
            "return a dense tensor (`tf.sparse.to_dense(x)`, or `x.to_tensor()` of ragged rows "
            "with their lengths beside it)"
        )
    elif output.dtype == tf.string:
        kind, remedy = "strings", "return indices into a list of strings"
    elif output.shape.rank == 0:
        kind, remedy = "a scalar", "return one row for each sample"
    else:
        return
    raise TypeError(
        "Only dense numeric predictions can be collected over ranks, but `predict_step` gives "
        f"{kind}: {remedy}, or save the model and let one rank load it and predict by plain Keras."
    )


def is_dense(output: Any) -> bool:
    """Return whether a prediction is a tensor with an entry at each place. Local.

    Args:
        output: What `predict_step` gives, or a part of it.
    """
    return tf.is_tensor(output) and not isinstance(output, (tf.RaggedTensor, tf.SparseTensor))


def _rows_per_sample(output: tf.Tensor, step: Step) -> tf.Tensor:
    num_rows = tf.shape(output, tf.int64)[0]
    num_samples = tf.maximum(step.num_local, 1)
    require(
        num_rows % num_samples == 0,
        "The first dimension of a prediction must be a multiple of the number of samples: "
        "otherwise it is not known which rows belong to which sample, and ranks' predictions "
        "cannot be put in order.",
    )
    return num_rows // num_samples


def _in_order(by_rank: tf.Tensor, rows_per_sample: tf.Tensor, order: tf.Tensor) -> tf.Tensor:
    num_rows = tf.shape(by_rank, tf.int64)[0]
    require(
        num_rows == rows_per_sample * tf.size(order, tf.int64),
        "The predictions of the ranks have different shapes, apart from the first "
        "dimension: they cannot be put together. Pad them to a fixed size.",
    )
    rest = tf.shape(by_rank, tf.int64)[1:]
    by_sample = tf.reshape(by_rank, tf.concat([[-1, rows_per_sample], rest], 0))
    ordered = tf.reshape(tf.gather(by_sample, order), tf.concat([[num_rows], rest], 0))
    ordered.set_shape(by_rank.shape)
    return ordered


def batch_order(num_rows: tf.Tensor, size: int) -> tf.Tensor:
    """Return the places of a batch's rows in the concatenation of all `batch[r::size]`. Local.

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
