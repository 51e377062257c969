"""The rows of arrays and tensors of any kind: which there are, how many, and some of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf


def has_rows(leaf: Any) -> bool:
    """Return whether a part of a batch has a row for each sample. Local."""
    if leaf is None:
        return False
    if _is_array(leaf):
        return np.ndim(leaf) > 0
    return leaf.shape.rank != 0


def in_order_of_rows(leaf: Any) -> Any:
    """Return a tensor, if it is sparse with its entries in the order of rows. Local."""
    return tf.sparse.reorder(leaf) if isinstance(leaf, tf.SparseTensor) else leaf


def rows_at(leaf: Any, positions: tf.Tensor) -> Any:
    """Return rows of a tensor, if sparse in the order of rows, at int64 positions. Local."""
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


def num_rows(batch: Any) -> Any:
    """Return the number of rows of a batch, int64: of the targets, else of the first leaf. Local.

    A tuple of two or three has its targets in the second place.
    """
    targets = batch[1] if type(batch) is tuple and len(batch) in (2, 3) else None
    leaf = next(leaf for leaf in tf.nest.flatten((targets, batch)) if has_rows(leaf))
    if isinstance(leaf, tf.RaggedTensor):
        return leaf.nrows(tf.int64)
    if isinstance(leaf, tf.SparseTensor):
        return leaf.dense_shape[0]
    if _is_array(leaf):
        return np.int64(len(leaf))
    return tf.shape(leaf, out_type=tf.int64)[0]


def spread_positions(size: Any, count: int) -> tf.Tensor:
    """Return about so many int64 positions of rows, spread over all of them. Local."""
    size = tf.cast(size, tf.int64)
    return tf.range(0, size, tf.maximum(size // count, 1))


def take(leaf: Any, rows: range, is_shared: bool) -> Any:
    """Return some rows of a leaf as a tensor, or all if each rank has all of them. Local."""
    if is_shared or not has_rows(leaf):
        return leaf if leaf is None or tf.is_tensor(leaf) else tf.convert_to_tensor(leaf)
    if isinstance(leaf, (tf.SparseTensor, tf.RaggedTensor)):
        return rows_at(in_order_of_rows(leaf), tf.constant(rows, tf.int64))
    return tf.convert_to_tensor(leaf[rows.start : rows.stop : rows.step])


def order_of_rows(sizes: tuple[int, ...]) -> list[int]:
    """Return the place of each row of a batch in the concatenation of the parts of ranks. Pure."""
    begins = [sum(sizes[:rank]) for rank in range(len(sizes))]
    rows = sorted((row, rank) for rank, size in enumerate(sizes) for row in range(size))
    return [begins[rank] + row for row, rank in rows]


def with_shape(spec: Any, shape: Any) -> Any:
    """Return the spec of a dense, ragged or sparse tensor with another shape. Pure."""
    if isinstance(spec, tf.RaggedTensorSpec):
        return tf.RaggedTensorSpec(shape, spec.dtype, spec.ragged_rank, spec.row_splits_dtype)
    if isinstance(spec, tf.SparseTensorSpec):
        return tf.SparseTensorSpec(shape, spec.dtype)
    return tf.TensorSpec(shape, spec.dtype)


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, (np.ndarray, np.generic, int, float))
