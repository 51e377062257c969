"""Bring values from one placement to another: what moves nothing, and what is asked of an exchange."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tnt_keras.partition.lanes import Lanes, combined
from tnt_keras.partition.placement import Rows, Shape, local_size

_REDUCE = {
    "sum": tf.add,
    "prod": tf.multiply,
    "max": tf.maximum,
    "min": tf.minimum,
    "and": tf.logical_and,
    "or": tf.logical_or,
}


class Layout:
    """Where the rows of a batch are in the lanes of this process. Makes operations, exchanges nothing.

    Args:
        lanes: The lanes of this process.
        num_rows: Rows of the batch.
    """

    def __init__(self, lanes: Lanes, num_rows: int) -> None:
        self.lanes = lanes
        self.num_rows = num_rows
        self.lane_rows = [lanes.num_rows(lane, num_rows) for lane in lanes.numbers]

    def cut(self, whole: tf.Tensor, shape: Shape, rows: Rows) -> list[tf.Tensor]:
        """Return the rows of each lane of a value that all have. Moves nothing."""
        return [
            self._cut(whole, shape, rows, lane, k)
            for lane, k in zip(self.lanes.numbers, self.lane_rows, strict=True)
        ]

    def cut_array(self, whole: np.ndarray[Any, Any], rows: Rows) -> list[np.ndarray[Any, Any]]:
        """Return the rows of each lane of a value that is known."""
        before, after = whole.shape[: rows.axis], whole.shape[rows.axis + 1 :]
        apart = whole.reshape(*before, rows.outer, self.num_rows, rows.inner, *after)
        places = (slice(None),) * (rows.axis + 1)
        return [
            apart[(*places, slice(lane, None, self.lanes.total))].reshape(
                *before, local_size(rows, k), *after
            )
            for lane, k in zip(self.lanes.numbers, self.lane_rows, strict=True)
        ]

    def addends(self, whole: tf.Tensor) -> list[tf.Tensor]:
        """Return addends whose total is a value that all have: lane 0 has it, others have zeros."""
        return [whole if lane == 0 else tf.zeros_like(whole) for lane in self.lanes.numbers]

    def weighted(self, own: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Return the addends of the mean over lanes of their own values, weighted by rows: `k / N`."""
        return [
            value * tf.constant(k / self.num_rows, value.dtype)
            for value, k in zip(own, self.lane_rows, strict=True)
        ]

    def reduced(self, parts: Sequence[tf.Tensor], reduction: str) -> tf.Tensor:
        """Return this process' operand of a reduction over all lanes."""
        return combined(parts, _REDUCE[reduction])

    def rows_first(
        self, parts: Sequence[tf.Tensor], shape: Shape, rows: Rows
    ) -> tf.Tensor:
        """Return the rows of this process, along axis 0, in the order of its lanes."""
        moved = [
            self._rows_first(part, shape, rows, k)
            for part, k in zip(parts, self.lane_rows, strict=True)
        ]
        return moved[0] if len(moved) == 1 else tf.concat(moved, 0)

    def whole(self, gathered: tf.Tensor, shape: Shape, rows: Rows) -> tf.Tensor:
        """Return a value, from the rows of all lanes along axis 0 in the order of lanes."""
        in_order = gathered
        if self.lanes.total > 1:
            in_order = tf.gather(gathered, self.lanes.order_of_batch(self.num_rows))
        if _is_plain(rows):
            return in_order
        assert shape is not None
        sizes = tf.shape(in_order)
        rank = len(shape)
        order = [*range(1, rows.axis + 2), 0, *range(rows.axis + 2, rank + 2)]
        apart = tf.transpose(in_order, order)
        return tf.reshape(
            apart, tf.concat([sizes[1 : rows.axis + 1], [-1], sizes[rows.axis + 3 :]], 0)
        )

    def _cut(self, whole: tf.Tensor, shape: Shape, rows: Rows, lane: int, k: int) -> tf.Tensor:
        step = slice(lane, None, self.lanes.total)
        if (rows.outer, rows.inner) == (1, 1):
            return whole[(slice(None),) * rows.axis + (step,)]
        sizes = tf.shape(whole)
        inner = -1 if rows.inner is None else rows.inner
        before, after = sizes[: rows.axis], sizes[rows.axis + 1 :]
        apart = tf.reshape(
            whole, tf.concat([before, [rows.outer, self.num_rows, inner], after], 0)
        )
        part = apart[(slice(None),) * (rows.axis + 1) + (step,)]
        size = local_size(rows, k)
        return tf.reshape(part, tf.concat([before, [-1 if size is None else size], after], 0))

    def _rows_first(self, part: tf.Tensor, shape: Shape, rows: Rows, k: int) -> tf.Tensor:
        """Rows of `(before, outer * k * inner, after)` as `(k, before, outer, inner, after)`."""
        if _is_plain(rows):
            return part
        assert shape is not None
        sizes = tf.shape(part)
        axis = rows.axis
        inner = sizes[axis] // (rows.outer * k) if rows.inner is None else rows.inner
        apart = tf.reshape(
            part,
            tf.concat([sizes[:axis], tf.stack([rows.outer, k, inner]), sizes[axis + 1 :]], 0),
        )
        rank = len(shape)
        return tf.transpose(
            apart, [axis + 1, *range(axis + 1), *range(axis + 2, rank + 2)]
        )


def _is_plain(rows: Rows) -> bool:
    return rows == Rows(0)


def local_sizes(
    operand: tf.Tensor, counts_rows: Sequence[bool], num_rows: int, k: int
) -> tf.Tensor:
    """Return sizes or positions in a lane: `m * N` becomes `m * k` in entries that count rows."""
    counts = tf.constant(list(counts_rows) if operand.shape.rank else counts_rows[0])
    local = operand // num_rows * k
    return tf.where(tf.logical_and(counts, operand > 0), local, operand)


def local_numbers(
    operand: np.ndarray[Any, Any], counts_rows: Sequence[bool], num_rows: int, k: int
) -> np.ndarray[Any, Any]:
    """Do what `local_sizes` does, for numbers that are known.

    Raises:
        ValueError: If an entry that counts rows is no multiple of their number.
    """
    flat = np.ravel(operand)
    local = []
    for number, counts in zip(flat.tolist(), counts_rows, strict=True):
        if counts and number > 0 and number % num_rows:
            raise ValueError(f"{number} is no multiple of the {num_rows} rows of the batch.")
        local.append(number // num_rows * k if counts and number > 0 else number)
    return np.asarray(local, operand.dtype).reshape(operand.shape)


