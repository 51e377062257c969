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
    """This rank's part of a global batch; ranks compare the batch before the step."""

    micro_batch: MicroBatch
    label_without_weight: Any = NO_LABEL  # as for `DataCheck`, int64 scalar


class LocalBatch(NamedTuple):
    """A batch of this rank's own samples; those of all ranks together are the global batch."""

    data: Any
    label_without_weight: Any = NO_LABEL  # as for `DataCheck`, int64 scalar


def unmarked(element: Any) -> Any:
    """Return the batch in what `part_of` takes, or its spec in a spec of that. Pure."""
    if isinstance(element, CheckedBatch):
        element = element.micro_batch
    return element.data if isinstance(element, (MicroBatch, LocalBatch)) else element


@dataclasses.dataclass(frozen=True, eq=False)
class BatchPart:
    """The part of one rank in one global batch, in its structure, of eager tensors and None.

    `shared` are the leaves, as `tf.nest.flatten` numbers them, of which each rank has all, though
    they have a dimension: ragged and sparse ones, and those with other numbers of rows than the
    batch has samples, such as the nodes and edges of its graphs.
    """

    rows: Any
    sizes: tuple[int, ...]  # samples of each rank
    whole: Any = None  # the whole batch, where this rank has it
    shared: frozenset[int] = frozenset()

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
    """
    if isinstance(element, MicroBatch):
        return _part_of_micro_batch(element)
    if isinstance(element, CheckedBatch):
        part, label = element
        fingerprint = int(part.fingerprint) ^ _number_of_shapes(part.data)
        data_check().same_batch(int(part.num_local), int(part.num_global), fingerprint, int(label))
        return _part_of_micro_batch(part)
    if isinstance(element, LocalBatch):
        num_local = int(num_rows(element.data))
        sizes = data_check().sizes_of_ranks(
            num_local, _number_of_shapes(element.data), int(element.label_without_weight)
        )
        if _with_other_rows(element.data, num_local):
            raise ValueError(
                "A batch of a rank's own samples has parts without a row for each sample, such as "
                "the nodes and edges of graphs, so that those of ranks do not make up one batch: "
                "let ranks share the batches of one dataset."
            )
        return BatchPart(element.data, tuple(sizes))
    return cut(element)


def _part_of_micro_batch(batch: MicroBatch) -> BatchPart:
    shared = frozenset(np.flatnonzero(batch.shared).tolist())
    return BatchPart(batch.data, even_sizes(int(batch.num_global)), shared=shared)


def _number_of_shapes(batch: Any) -> int:
    """Return a number that is equal for rows of one shape, int32."""
    shapes = [leaf.shape[1:] for leaf in tf.nest.flatten(batch) if leaf is not None]
    return zlib.crc32(str(shapes).encode()) >> 1


def cut(
    batch: Any, num_global: int | None = None, are_parts: frozenset[int] = frozenset()
) -> BatchPart:
    """Return this rank's part of a batch that all have; other numbers of rows stay whole. Local.

    `num_global` is the number of its samples, None if it is that of its targets; `are_parts` are
    the leaves that are this rank's part already.
    """
    if num_global is None:
        num_global = int(num_rows(batch))
    own = range(get_rank(), num_global, get_size()) or range(min(num_global, 1))
    leaves = tf.nest.flatten(batch)
    shared = _with_other_rows(batch, num_global) - are_parts
    rows = [
        leaf if i in are_parts else _take(leaf, own, i in shared) for i, leaf in enumerate(leaves)
    ]
    whole = None if are_parts else batch
    return BatchPart(tf.nest.pack_sequence_as(batch, rows), even_sizes(num_global), whole, shared)


def _with_other_rows(batch: Any, num_samples: int) -> frozenset[int]:
    """Return the positions of the leaves whose number of rows is not that of the samples."""
    return frozenset(
        i
        for i, leaf in enumerate(tf.nest.flatten(batch))
        if has_rows(leaf) and leaf.shape[0] != num_samples
    )


def even_sizes(num_global: int) -> tuple[int, ...]:
    """Return the samples of a batch on each rank: `ceil((num_global - rank) / size)`. Pure."""
    size = get_size()
    return tuple(len(range(rank, num_global, size)) for rank in range(size))


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


def _take(leaf: Any, rows: range, is_shared: bool) -> Any:
    if is_shared or not has_rows(leaf):
        return leaf if leaf is None or tf.is_tensor(leaf) else tf.convert_to_tensor(leaf)
    if isinstance(leaf, (tf.SparseTensor, tf.RaggedTensor)):
        return rows_at(in_order_of_rows(leaf), tf.constant(rows, tf.int64))
    return tf.convert_to_tensor(leaf[rows.start : rows.stop : rows.step])


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, (np.ndarray, np.generic, int, float))
