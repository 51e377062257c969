"""Take the rows of one rank out of a component of a batch, be it dense, ragged or sparse."""

# The rows of one lane are `component[first::lanes]` with `first = lane`, or 0 for a rank without
# samples. The latter is one row, because a batch with `num_global <= lane` samples has fewer than
# `lanes` of them. The rows of several lanes are taken at once, from positions.

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tnt_data.elements.row_split import RowSplit


def num_rows_of(split: RowSplit, num_global: tf.Tensor) -> tf.Tensor:
    """Return `RowSplit.num_rows` for a number that is known when the dataset is read. Local."""
    own = split.own_lanes
    rest = tf.clip_by_value(num_global % split.lanes - own.start, 0, len(own))
    return num_global // split.lanes * len(own) + rest


def first_row_of(split: RowSplit, num_global: tf.Tensor) -> tf.Tensor:
    """Return the position of a rank's first row in a global batch; 0 if it has no sample. Local."""
    first, zero = tf.constant(split.own_lanes.start, tf.int64), tf.constant(0, tf.int64)
    return tf.where(first < num_global, first, zero)


def has_rows(component: Any) -> bool:
    """Return whether a component has a row for each sample: scalars and None have none. Local."""
    return component is not None and component.shape.rank != 0


def num_rows(component: Any) -> tf.Tensor:
    """Return the number of rows of a component, int64. Local."""
    if isinstance(component, tf.SparseTensor):
        return component.dense_shape[0]
    if isinstance(component, tf.RaggedTensor):
        return component.nrows(out_type=tf.int64)
    if component.shape.rank is None:
        is_known = tf.debugging.assert_rank_at_least(
            component,
            1,
            message="A component of a batch has no rows, so ranks cannot share the batch. Declare "
            "it as a scalar in its spec; if the elements are single samples, call "
            ".batch(n) with the global batch size.",
        )
        with tf.control_dependencies([is_known]):
            component = tf.identity(component)
    return tf.shape(component, out_type=tf.int64)[0]


def take_known_rows(component: Any, split: RowSplit, num_global: int) -> Any:
    """Take a rank's rows of a component with so many. Local."""
    if not has_rows(component) or split.lanes == 1:
        return component
    rows: Sequence[int] = split.rows(num_global)
    if not isinstance(rows, range):
        return _take_at(component, tf.constant(rows, tf.int64))
    taken = _take_every(component, rows.start, rows.step)
    if isinstance(component, tf.Tensor):
        taken = tf.ensure_shape(taken, [len(rows), *taken.shape[1:]])
    return taken


def take_rows(
    component: Any, split: RowSplit, num_global: tf.Tensor, is_whole: tf.Tensor | None = None
) -> Any:
    """Take a rank's rows of a component, with numbers that are known when it is read. Local.

    If `is_whole` is true then, it has another number of rows, and all of them are taken.
    """
    if not has_rows(component) or split.lanes == 1:
        return component
    first, step = first_row_of(split, num_global), tf.constant(split.lanes, tf.int64)
    if is_whole is not None:
        zero, one = tf.constant(0, tf.int64), tf.constant(1, tf.int64)
        first, step = tf.where(is_whole, zero, first), tf.where(is_whole, one, step)
    if len(split.own_lanes) == 1:
        return _take_every(component, first, step)
    others, end = tf.constant(list(split.own_lanes[1:]), tf.int64), num_rows(component)
    if is_whole is not None:
        others = tf.where(is_whole, end, others)
    begins = tf.concat([[first], others], axis=0)
    return _take_at(component, tf.ragged.range(begins, end, step).values)


def _take_every(component: Any, first: Any, step: Any) -> Any:
    """Take the rows `component[first::step]`."""
    first, step = tf.cast(first, tf.int64), tf.cast(step, tf.int64)
    if isinstance(component, tf.SparseTensor):
        return _take_every_sparse(component, first, step)
    # A slice copies number by number; gather copies whole rows.
    return tf.gather(component, tf.range(first, num_rows(component), step))


def _take_every_sparse(
    component: tf.SparseTensor, first: tf.Tensor, step: tf.Tensor
) -> tf.SparseTensor:
    row = component.indices[:, 0]
    mine = tf.logical_and(row >= first, (row - first) % step == 0)
    rows = (tf.boolean_mask(row, mine) - first) // step
    count = (component.dense_shape[0] - first + step - 1) // step
    return _sparse_rows(component, mine, rows, count)


def _take_at(component: Any, positions: tf.Tensor) -> Any:
    """Take the rows at positions, of which none is there twice."""
    if not isinstance(component, tf.SparseTensor):
        return tf.gather(component, positions)
    count = tf.size(positions, tf.int64)
    # The place of each row among those that are taken, from 1 on; 0 for others.
    places = tf.scatter_nd(
        positions[:, tf.newaxis], tf.range(1, count + 1), component.dense_shape[:1]
    )
    place = tf.gather(places, component.indices[:, 0])
    mine = place > 0
    taken = _sparse_rows(component, mine, tf.boolean_mask(place, mine) - 1, count)
    return tf.sparse.reorder(taken)


def _sparse_rows(
    component: tf.SparseTensor, mine: tf.Tensor, rows: tf.Tensor, num_taken: tf.Tensor
) -> tf.SparseTensor:
    """Return some entries of a component, with other rows."""
    others = tf.boolean_mask(component.indices[:, 1:], mine)
    indices = tf.concat([rows[:, tf.newaxis], others], axis=1)
    shape = tf.concat([[num_taken], component.dense_shape[1:]], axis=0)
    taken = tf.SparseTensor(indices, tf.boolean_mask(component.values, mine), shape)
    taken.set_shape([None, *component.shape[1:]])
    return taken
