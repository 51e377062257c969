"""This rank's part of the batch that a step computes: its rows, and how many there are in all."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tnt_data import MicroBatch
from tnt_keras.process.rank import get_rank, get_size
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


@dataclasses.dataclass(frozen=True, eq=False)
class BatchPart:
    """The part of one rank in one global batch.

    Attributes:
        rows: Of this rank, in the structure of the batch, of eager tensors and None.
        sizes: The number of samples of each rank.
        whole: The whole batch, where this rank has it.
    """

    rows: Any
    sizes: tuple[int, ...]
    whole: Any = None

    @property
    def num_local(self) -> int:
        """Samples of this rank; 0 if `rows` are a duplicate of the first one."""
        return self.sizes[get_rank()]

    @property
    def num_global(self) -> int:
        """Samples of all ranks."""
        return sum(self.sizes)

    @property
    def is_cut_evenly(self) -> bool:
        """Whether rank r of n has the rows r, r + n, ... of the batch."""
        return self.sizes == even_sizes(self.num_global)


def part_of(element: Any, data_check: Callable[[], DataCheck]) -> BatchPart:
    """Return this rank's part of the batch that an element is. Collective for marked batches.

    `fit`, `evaluate` and `predict` feed micro-batches, or batches that are marked for a comparison
    (`CheckedBatch`, `LocalBatch`). Anything else, such as the arguments of `train_on_batch`, is a
    global batch, the same on all ranks.

    Args:
        element: A `MicroBatch`, `CheckedBatch` or `LocalBatch` of eager tensors, or any structure
            of arrays and tensors of shape `(batch, ...)`.
        data_check: Returns that by which ranks compare batches that are marked.

    Raises:
        DifferentInputError: On all ranks, as `DataCheck` does.
    """
    if isinstance(element, MicroBatch):
        return BatchPart(element.data, even_sizes(int(element.num_global)))
    if isinstance(element, CheckedBatch):
        part, label = element
        num_global = int(part.num_global)
        data_check().same_batch(int(part.num_local), num_global, int(part.fingerprint), int(label))
        return BatchPart(part.data, even_sizes(num_global))
    if isinstance(element, LocalBatch):
        num_local = int(num_rows(element.data))
        shapes = [tuple(each.shape)[1:] for each in tf.nest.flatten(element.data) if has_rows(each)]
        sizes = data_check().sizes_of_ranks(
            num_local, zlib.crc32(repr(shapes).encode()), int(element.label_without_weight)
        )
        return BatchPart(element.data, tuple(sizes))
    return cut(element)


def cut(batch: Any) -> BatchPart:
    """Return this rank's part of a batch that all ranks have. Local.

    Args:
        batch: Any structure of arrays and tensors of shape `(batch, ...)`, scalars and None.
    """
    num_global = int(num_rows(batch))
    own = range(get_rank(), num_global, get_size()) or range(min(num_global, 1))
    rows = tf.nest.map_structure(lambda leaf: _take(leaf, own), batch)
    return BatchPart(rows, even_sizes(num_global), whole=batch)


def even_sizes(num_global: int) -> tuple[int, ...]:
    """Return the samples of a batch on each rank: `ceil((num_global - rank) / size)`. Pure."""
    size = get_size()
    return tuple(len(range(rank, num_global, size)) for rank in range(size))


def has_rows(leaf: Any) -> bool:
    """Return whether a part of a batch has a row for each sample. Local.

    Args:
        leaf: An array or tensor, or None.
    """
    if leaf is None:
        return False
    if _is_array(leaf):
        return np.ndim(leaf) > 0
    return leaf.shape.rank != 0


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


def num_rows(batch: Any) -> Any:
    """Return the number of rows of a batch, int64 scalar. Local.

    Args:
        batch: Any structure of arrays, dense, ragged and sparse tensors of shape `(batch, ...)`,
            scalars and None.
    """
    leaf = next(leaf for leaf in tf.nest.flatten(batch) if has_rows(leaf))
    if isinstance(leaf, tf.RaggedTensor):
        return leaf.nrows(tf.int64)
    if isinstance(leaf, tf.SparseTensor):
        return leaf.dense_shape[0]
    if _is_array(leaf):
        return np.int64(len(leaf))
    return tf.shape(leaf, out_type=tf.int64)[0]


def _take(leaf: Any, rows: range) -> Any:
    if not has_rows(leaf):
        return None if leaf is None else tf.convert_to_tensor(leaf)
    if isinstance(leaf, tf.SparseTensor):
        return rows_at(tf.sparse.reorder(leaf), tf.constant(rows, tf.int64))
    if isinstance(leaf, tf.RaggedTensor):
        return tf.gather(leaf, tf.constant(rows, tf.int64))
    return tf.convert_to_tensor(leaf[rows.start : rows.stop : rows.step])


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, (np.ndarray, np.generic, int, float))
