"""Take this rank's part of the element that a step receives."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from tnt_data import MicroBatch
from tnt_keras.collectives.exchange import ExchangeSequence
from tnt_keras.step.context import Step
from tnt_keras.step.data_check import NO_LABEL, DataCheck


class CheckedBatch(NamedTuple):
    """This rank's part of a global batch; ranks compare the batch before the step.

    Attributes:
        micro_batch: The part.
        label_without_weight: As for `DataCheck`, int64 scalar.
    """

    micro_batch: MicroBatch
    label_without_weight: Any = NO_LABEL


class LocalBatch(NamedTuple):
    """A batch of this rank's own samples; those of all ranks together are the global batch.

    Attributes:
        data: The batch.
        label_without_weight: As for `DataCheck`, int64 scalar.
    """

    data: Any
    label_without_weight: Any = NO_LABEL


def split(
    data: Any,
    rank: int,
    size: int,
    data_check: DataCheck | None = None,
    exchanges: ExchangeSequence | None = None,
) -> tuple[Any, Step]:
    """Return this rank's rows and the step that describes them. Collective for marked batches.

    `fit`, `evaluate` and `predict` feed micro-batches, or batches that are marked for a comparison
    (`CheckedBatch`, `LocalBatch`). Anything else, such
    as the arguments of `train_on_batch`, is a global batch, the same on all ranks, of which rank r
    takes the rows r, r + n, r + 2n, ... A rank without rows takes a duplicate of the first.

    Args:
        data: A `MicroBatch`, `CheckedBatch` or `LocalBatch`, or any structure of tensors of shape
            `(batch, ...)`.
        rank: Rank of the caller.
        size: Number of ranks.
        data_check: By which ranks compare what they read; needed for batches that are marked.
        exchanges: The exchanges of the graph so far, by default none.

    Returns:
        The rows, in the structure of the element, and the step.
    """
    exchanges = ExchangeSequence() if exchanges is None else exchanges
    if isinstance(data, MicroBatch):
        return data.data, Step(data.num_local, data.num_global, exchanges)
    if isinstance(data, CheckedBatch):
        assert data_check is not None
        step = data_check.same_batch(data.micro_batch, data.label_without_weight, exchanges)
        return data.micro_batch.data, step
    if isinstance(data, LocalBatch):
        assert data_check is not None
        num_local = num_rows(data.data)
        step = data_check.total_samples(num_local, data.label_without_weight, exchanges)
        return data.data, step
    num_global = num_rows(data)
    num_local = tf.maximum(num_global - rank + size - 1, 0) // size
    # `tf.range(rank, num_global, size)` is an error where the rank has no rows.
    rows = rank + size * tf.range(num_local)
    rows = tf.cond(num_local > 0, lambda: rows, lambda: tf.zeros([1], tf.int64))
    local = tf.nest.map_structure(
        lambda leaf: None if leaf is None else rows_at(_in_order(leaf), rows), data
    )
    return local, Step(num_local, num_global, exchanges)


def rows_at(leaf: Any, positions: tf.Tensor) -> Any:
    """Return the rows of a tensor at some positions. Local.

    Args:
        leaf: Dense, ragged, or sparse with its entries in the order of rows, of shape
            `(batch, ...)`.
        positions: int64 tensor of shape `(rows,)`.
    """
    if not isinstance(leaf, tf.SparseTensor):
        return tf.gather(leaf, positions)
    row_of_entry = leaf.indices[:, 0]
    begins, ends = (tf.searchsorted(row_of_entry, positions, side) for side in ("left", "right"))
    entries = tf.ragged.range(begins, ends)  # of each row
    rows = tf.cast(entries.value_rowids(), tf.int64)
    others = tf.gather(leaf.indices, entries.values)[:, 1:]
    indices = tf.concat([rows[:, tf.newaxis], others], axis=1)
    shape = tf.concat([tf.shape(positions, tf.int64), leaf.dense_shape[1:]], axis=0)
    taken = tf.SparseTensor(indices, tf.gather(leaf.values, entries.values), shape)
    taken.set_shape([None, *leaf.shape[1:]])
    return taken


def _in_order(leaf: Any) -> Any:
    return tf.sparse.reorder(leaf) if isinstance(leaf, tf.SparseTensor) else leaf


def num_rows(batch: Any) -> tf.Tensor:
    """Return the number of rows of a batch, int64 scalar. Local.

    Args:
        batch: Any structure of dense, ragged and sparse tensors of shape `(batch, ...)` and None.
    """
    leaf = next(leaf for leaf in tf.nest.flatten(batch) if leaf is not None)
    if isinstance(leaf, tf.RaggedTensor):
        return leaf.nrows(tf.int64)
    if isinstance(leaf, tf.SparseTensor):
        return leaf.dense_shape[0]
    return tf.shape(leaf, out_type=tf.int64)[0]
