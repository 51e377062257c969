"""Replicas, the parts into which a batch is cut, and how values come from placement to placement.

Each of `V` replicas has every `V`-th row. Some conversions need no exchange between processes; of
the others the two ends are here.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import tensorflow as tf

from tnt_keras.partition.combine import combined, widened
from tnt_keras.partition.value import (
    ANY_ROWS,
    Placement,
    Shape,
    Sharded,
    is_shared,
    is_symbolic,
    local_shape,
    local_size,
    static,
)

NumRows: TypeAlias = Any
"""A number of rows: an integer, or an int64 scalar of the graph."""


@dataclasses.dataclass(frozen=True, slots=True)
class Replicas:
    """The replicas of one process, out of those of all processes.

    Replica `v` of `V` computes the rows `v, v + V, v + 2V ...` of every batch. `are_lanes`: what is
    built for this process gives the same bits as what is built for any other number of processes
    that have as many replicas together. The process computes `at_once` of its own at a time.
    """

    first: int
    count: int  # consecutive replicas of this process
    total: int  # of all processes
    are_lanes: bool = False
    at_once: int = sys.maxsize

    @property
    def numbers(self) -> range:
        """The replicas of this process."""
        return range(self.first, self.first + self.count)

    def num_rows(self, replica: int, num_rows: Any) -> Any:
        """Return how many of a batch's rows a replica has: `ceil((num_rows - replica) / total)`."""
        return (num_rows - replica + self.total - 1) // self.total

    def order_of_batch(self, rows: Any, num_rows: Any) -> Any:
        """Return the places of rows of the batch when all rows are sorted by replica."""
        replica = rows % self.total
        larger = num_rows % self.total  # so many replicas have a row more
        before = (replica + larger - abs(replica - larger)) // 2  # of these, in front: the minimum
        return replica * (num_rows // self.total) + before + rows // self.total


@dataclasses.dataclass(frozen=True, eq=False)
class Request:
    """A value of this process that is combined with those of all processes.

    The kinds are "sum", "prod", "max", "min", "and" and "or", element by element; "gather" for the
    rows of all processes along axis 0, in the order of ranks, with any number each; "broadcast" for
    the value of rank 0.
    """

    kind: str
    value: tf.Tensor  # of this process: its replicas, combined
    name: str  # the same on all ranks
    line: str  # the user's, "" if there is none
    is_update: bool  # a gradient: the result reaches an optimizer's update


class Exchange(Protocol):
    """Combines values of all processes. Collective."""

    def ask(self, request: Request) -> None:
        """Note a request, for the next `flush`."""

    def flush(self, last: bool) -> list[tf.Tensor]:
        """Exchange all noted requests, and return the results in the order of the requests."""

    def blocking(self, request: Request) -> tf.Tensor:
        """Exchange one value at once: inside a branch or loop, or one whose size is unknown."""

    def ordered(self, make: Callable[[], list[tf.Tensor]]) -> list[tf.Tensor]:
        """Make an operation with blocking exchanges inside: a loop or a branch.

        It runs after all earlier exchanges and before all later ones. `make` returns its outputs or
        something that depends on it.
        """


class NoExchange:
    """The exchange of a replica that is alone: of a local region, or of what needs no batch."""

    def ask(self, request: Request) -> None:
        """Refuse the request: a replica that is alone has all rows."""
        raise AssertionError(f"{request.name!r} must not be exchanged.")

    def flush(self, last: bool) -> list[tf.Tensor]:
        """Return nothing, since nothing was asked for."""
        return []

    def blocking(self, request: Request) -> tf.Tensor:
        """Return the value itself."""
        return request.value

    def ordered(self, make: Callable[[], list[tf.Tensor]]) -> list[tf.Tensor]:
        """Make the operation."""
        return make()


class BatchSharding:
    """The rows of a batch in the replicas of this process. Makes operations, exchanges nothing."""

    def __init__(self, replicas: Replicas, num_rows: NumRows) -> None:
        self.replicas = replicas
        self.num_rows = num_rows
        self.is_for_any = tf.is_tensor(num_rows)
        with tf.device("CPU:0") if self.is_for_any else contextlib.nullcontext():
            self.replica_rows = [replicas.num_rows(v, num_rows) for v in replicas.numbers]
        self._dtype = tf.int64 if self.is_for_any else tf.int32

    @property
    def each(self) -> list[tuple[int, NumRows]]:
        """The replicas of this process, and how many rows each has."""
        return list(zip(self.replicas.numbers, self.replica_rows, strict=True))

    @property
    def arguments(self) -> list[tf.Tensor]:
        """What a function that is called with rows must be given besides."""
        return [self.num_rows] if self.is_for_any else []

    def within(self, arguments: Sequence[tf.Tensor]) -> BatchSharding:
        """Return the sharding in a function that has been given `arguments`."""
        return BatchSharding(self.replicas, arguments[0]) if self.is_for_any else self

    def part_shape(self, shape: Shape, placement: Placement, k: NumRows | None) -> Shape:
        """Return what is known of the shape of the part of a replica with `k` rows."""
        return static(local_shape(shape, placement, None if self.is_for_any else k))

    def part_shapes(self, shape: Shape, placement: Placement) -> list[Shape]:
        """Return what is known of the shapes of all parts, of one if replicas share the value."""
        rows = [None] if is_shared(placement) else self.replica_rows
        return [self.part_shape(shape, placement, k) for k in rows]

    def share(self, k: NumRows, dtype: tf.DType) -> tf.Tensor:
        """Return the share `k / N` of a replica with `k` rows."""
        share = k / self.num_rows
        return tf.cast(share, dtype) if self.is_for_any else tf.constant(share, dtype)

    def integers(
        self, numbers: Sequence[int], counts: Sequence[bool] | None, k: NumRows
    ) -> list[NumRows]:
        """Return numbers in a replica: `m * k` for `m * N` in entries that count rows."""
        num_rows = ANY_ROWS if self.is_for_any else self.num_rows

        def in_replica(number: int, is_count: bool) -> NumRows:
            if is_count and number > 0:
                if number % num_rows:
                    raise ValueError(f"{number} is no multiple of the {num_rows} rows.")
                return number // num_rows * k
            return number // num_rows * self.num_rows if is_symbolic(number) else number

        flags = [False] * len(numbers)
        return [in_replica(*each) for each in zip(numbers, counts or flags, strict=True)]

    def cut(self, whole: tf.Tensor, rows: Sharded) -> list[tf.Tensor]:
        """Return each replica's rows of a replicated value."""
        return [self._cut(whole, rows, replica, k) for replica, k in self.each]

    def cut_array(self, whole: np.ndarray[Any, Any], rows: Sharded) -> list[np.ndarray[Any, Any]]:
        """Return each replica's rows of a constant."""
        before, after = whole.shape[: rows.axis], whole.shape[rows.axis + 1 :]
        inner = whole.shape[rows.axis] // (rows.outer * self.num_rows)
        apart = whole.reshape(*before, rows.outer, self.num_rows, inner, *after)
        places = (slice(None),) * (rows.axis + 1)
        parts = (apart[(*places, slice(v, None, self.replicas.total))] for v, _ in self.each)
        sizes = (rows.outer * k * inner for k in self.replica_rows)
        return [p.reshape(*before, size, *after) for p, size in zip(parts, sizes, strict=True)]

    def operands(self, whole: tf.Tensor, reduction: str) -> list[tf.Tensor]:
        """Return operands of a reduction: of a sum or product the value in replica 0 alone."""
        neutral = {"sum": tf.zeros_like, "prod": tf.ones_like}.get(reduction)
        if neutral is None:
            return [whole] * self.replicas.count  # the largest of equal values is that value
        return [whole if replica == 0 else neutral(whole) for replica in self.replicas.numbers]

    def weighted(self, own: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Return each replica's own value times `k / N`: the partial sums of the mean."""
        each = zip(own, self.replica_rows, strict=True)
        return [value * self.share(k, value.dtype) for value, k in each]

    def reduced(self, parts: Sequence[tf.Tensor], reduction: str) -> tf.Tensor:
        """Return the replicas of this process, reduced to its operand of the exchange.

        Of lanes, 16-bit floats are reduced to float32.
        """
        return combined(widened(parts) if self.replicas.are_lanes else parts, reduction)

    def rows_first(self, parts: Sequence[tf.Tensor], shape: Shape, rows: Sharded) -> tf.Tensor:
        """Return the rows of this process along axis 0, in the order of its replicas."""
        each = zip(parts, self.replica_rows, strict=True)
        moved = [self._rows_first(part, shape, rows, k) for part, k in each]
        return moved[0] if len(moved) == 1 else tf.concat(moved, 0)

    def whole(self, gathered: tf.Tensor, shape: Shape, rows: Sharded) -> tf.Tensor:
        """Return the whole value, given the rows of all replicas along axis 0 in replica order."""
        in_order = gathered
        if self.replicas.total > 1:
            numbers = tf.range(self.num_rows) if self.is_for_any else np.arange(self.num_rows)
            in_order = tf.gather(gathered, self.replicas.order_of_batch(numbers, self.num_rows))
        if rows == Sharded(0):
            return in_order
        assert shape is not None
        sizes, axis = tf.shape(in_order), rows.axis
        order = [*range(1, axis + 2), 0, *range(axis + 2, len(shape) + 2)]
        apart = tf.transpose(in_order, order)
        return tf.reshape(apart, tf.concat([sizes[1 : axis + 1], [-1], sizes[axis + 3 :]], 0))

    def _cut(self, whole: tf.Tensor, rows: Sharded, replica: int, k: NumRows) -> tf.Tensor:
        step = slice(replica, None, self.replicas.total)
        if rows == Sharded(rows.axis) and not self.is_for_any:
            return whole[(slice(None),) * rows.axis + (step,)]
        sizes = tf.shape(whole, self._dtype)
        inner = -1 if rows.inner is None else rows.inner
        before, after = sizes[: rows.axis], sizes[rows.axis + 1 :]
        apart = tf.reshape(whole, tf.concat([before, [rows.outer, self.num_rows, inner], after], 0))
        part = apart[(slice(None),) * (rows.axis + 1) + (step,)]
        size = local_size(rows, k)
        return tf.reshape(part, tf.concat([before, [-1 if size is None else size], after], 0))

    def _rows_first(self, part: tf.Tensor, shape: Shape, rows: Sharded, k: NumRows) -> tf.Tensor:
        """Transpose `(before, outer * k * inner, after)` to `(k, before, outer, inner, after)`."""
        if rows == Sharded(0):
            return part
        assert shape is not None
        sizes = tf.shape(part, self._dtype)
        axis = rows.axis
        inner = sizes[axis] // (rows.outer * k) if rows.inner is None else rows.inner
        apart_sizes = [sizes[:axis], tf.stack([rows.outer, k, inner]), sizes[axis + 1 :]]
        apart = tf.reshape(part, tf.concat(apart_sizes, 0))
        return tf.transpose(apart, [axis + 1, *range(axis + 1), *range(axis + 2, len(shape) + 2)])


def scaled(sizes: tf.Tensor, counts_rows: Any, before: NumRows, after: NumRows) -> tf.Tensor:
    """Return sizes or positions with `m * after` for `m * before` in entries that count rows."""
    other = sizes // tf.cast(before, sizes.dtype) * tf.cast(after, sizes.dtype)
    return tf.where(tf.logical_and(counts_rows, sizes > 0), other, sizes)
