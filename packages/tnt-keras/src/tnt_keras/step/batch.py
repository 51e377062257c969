"""The rows of batches: this rank's part, which a step computes, and the whole where it is needed.

Rows are those of arrays, and of dense, ragged and sparse tensors.
"""

from __future__ import annotations

import dataclasses
import pickle
import zlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tnt_data import MicroBatch
from tnt_keras.calls.errors import of_all_ranks
from tnt_keras.calls.messages import allgather
from tnt_keras.process.lanes import num_lanes, row_split
from tnt_keras.process.rank import get_rank
from tnt_keras.step.data_check import NO_LABEL, DataCheck


class Part(NamedTuple):
    """This rank's part of a batch, with tensors as datasets yield it, with numbers in a step."""

    data: Any  # in the structure of the batch, with None; without a sample a duplicate of the first
    num_local: Any = ()  # samples of this rank
    num_global: Any = ()  # of all ranks; () for a rank's own samples, which make up the batch
    fingerprint: Any = ()  # as for `MicroBatch`
    shared: Any = ()
    """The leaves, as `tf.nest.flatten` numbers them, of which each rank has all, though they have
    a dimension: ragged and sparse ones, and those with other numbers of rows than the batch has
    samples, such as the nodes and edges of its graphs. Datasets say it for each leaf, as bool."""
    label: Any = ()  # of a part that ranks compare: without weight, as for `DataCheck`
    sizes: tuple[int, ...] = ()  # samples of each rank, if they are not `even_sizes`
    whole: tuple[Any, ...] = ()  # of the whole batch, where this rank has it

    @property
    def leaves(self) -> list[tuple[Any, bool]]:
        """Those that are not None, in a step; each with whether it is shared."""
        leaves = enumerate(tf.nest.flatten(self.data))
        return [(leaf, i in self.shared) for i, leaf in leaves if leaf is not None]

    @property
    def is_own(self) -> bool:
        """Whether a dataset has yielded samples of this rank's own."""
        return isinstance(self.num_global, tuple)


def compared(batch: Any, label: Any = NO_LABEL) -> Part:
    """Mark a micro-batch, or samples of this rank's own, to be compared before the step. Local."""
    return Part(*batch, label) if isinstance(batch, MicroBatch) else Part(batch, label=label)


def unmarked(element: Any) -> Any:
    """Return the batch in what `part_of` takes, or its spec in a spec of that. Pure."""
    return element.data if isinstance(element, (Part, MicroBatch)) else element


def part_of(element: Any, data_check: Callable[[], DataCheck]) -> Part:
    """Return this rank's part of the batch that an element is. Collective if it is `compared`.

    `fit`, `evaluate` and `predict` feed these or micro-batches. Anything else, such as the
    arguments of `train_on_batch`, is a global batch, the same on all ranks.
    """
    if not isinstance(element, (Part, MicroBatch)):
        return cut(element)
    if isinstance(element, Part) and element.is_own:
        return _part_of_own(element, data_check())
    num_local, num_global = int(element.num_local), int(element.num_global)
    if isinstance(element, Part):
        fingerprint = int(element.fingerprint) ^ _number_of_shapes(element.data)
        data_check().same_batch(num_local, num_global, fingerprint, int(element.label))
    shared = frozenset(np.flatnonzero(element.shared).tolist())
    return Part(element.data, num_local, num_global, shared=shared)


def _part_of_own(element: Part, check: DataCheck) -> Part:
    batch, num_local = element.data, int(num_rows(element.data))
    sizes = check.sizes_of_ranks(num_local, _number_of_shapes(batch), int(element.label))
    if _with_other_rows(batch, num_local):
        raise ValueError(
            "A batch of a rank's own samples has components without one row per sample, such as "
            "the nodes and edges of graphs, so the batches of ranks cannot be joined: let ranks "
            "share the batches of one dataset."
        )
    is_even = sizes == even_sizes(sum(sizes))
    return Part(batch, num_local, sum(sizes), shared=frozenset(), sizes=() if is_even else sizes)


def _number_of_shapes(batch: Any) -> int:
    """Return a number that is equal for rows of one shape, int32."""
    shapes = [leaf.shape[1:] for leaf in tf.nest.flatten(batch) if leaf is not None]
    return zlib.crc32(str(shapes).encode()) >> 1


def cut(batch: Any, num_global: int | None = None, are_parts: frozenset[int] = frozenset()) -> Part:
    """Return this rank's part of a batch that all have; other numbers of rows stay whole. Local.

    `num_global` is the number of its samples, None if it is that of its targets; `are_parts` are
    the leaves that are this rank's part already.
    """
    if num_global is None:
        num_global = int(num_rows(batch))
    own = row_split().positions(num_global)
    taken = own or range(min(num_global, 1))
    shared = _with_other_rows(batch, num_global) - are_parts
    rows = [
        leaf if i in are_parts else _take(leaf, taken, i in shared)
        for i, leaf in enumerate(tf.nest.flatten(batch))
    ]
    data, whole = tf.nest.pack_sequence_as(batch, rows), () if are_parts else (batch,)
    return Part(data, len(own), num_global, shared=shared, whole=whole)


def _take(leaf: Any, rows: Sequence[int], is_shared: bool) -> Any:
    """Return some rows of a leaf as a tensor, or all if each rank has all of them. Local."""
    if is_shared or not has_rows(leaf):
        return leaf if leaf is None or tf.is_tensor(leaf) else tf.convert_to_tensor(leaf)
    if isinstance(leaf, (tf.SparseTensor, tf.RaggedTensor)):
        return rows_at(in_order_of_rows(leaf), tf.constant(rows, tf.int64))
    if isinstance(rows, range):
        return tf.convert_to_tensor(leaf[rows.start : rows.stop : rows.step])
    return tf.gather(leaf, rows)


def _with_other_rows(batch: Any, num_samples: int) -> frozenset[int]:
    """Return the positions of the leaves whose number of rows is not that of the samples."""
    return frozenset(
        i
        for i, leaf in enumerate(tf.nest.flatten(batch))
        if has_rows(leaf) and leaf.shape[0] != num_samples
    )


def even_sizes(num_global: int) -> tuple[int, ...]:
    """Return the samples of a batch on each rank: those of its lanes. Local."""
    return tuple(len(rows) for rows in _rows_of_ranks(num_global))


def _rows_of_ranks(num_global: int) -> list[Sequence[int]]:
    """Return the positions of each rank's rows in a batch, in the order in which it has them."""
    own = row_split()
    splits = (dataclasses.replace(own, rank=rank) for rank in range(own.size))
    return [split.positions(num_global) for split in splits]


def lanes_of(leaf: tf.Tensor, num_global: int) -> list[tf.Tensor]:
    """Return the rows of each lane of this rank, of those that it has of a batch. Local."""
    split = row_split()
    if len(split.own_lanes) == 1:
        return [leaf]
    sizes = [len(range(lane, num_global, split.lanes)) for lane in split.own_lanes]
    rows: list[tf.Tensor] = tf.split(leaf, sizes)
    return rows


def whole_batch(part: Part) -> Any:
    """Return the batch of which each rank has a part. Collective, unless this rank has all.

    Of samples that ranks share by themselves the first of each rank come first, then the second
    ones, and so on. Duplicates, which ranks without samples have, are left out.
    """
    if part.whole:
        return part.whole[0]
    leaves = tf.nest.flatten(part.data)
    are_parts = [has_rows(leaf) and i not in part.shared for i, leaf in enumerate(leaves)]
    return _with_gathered(part, leaves, are_parts)


def with_whole_values(part: Part) -> Part:
    """Return the part with all of its ragged and sparse leaves. Collective, if there are any."""
    leaves = tf.nest.flatten(part.data)
    are_parts = [
        isinstance(leaf, (tf.RaggedTensor, tf.SparseTensor)) and i not in part.shared
        for i, leaf in enumerate(leaves)
    ]
    if not any(are_parts):
        return part
    if part.whole:
        of_all = zip(leaves, tf.nest.flatten(part.whole), are_parts, strict=True)
        chosen = [in_order_of_rows(whole) if is_part else leaf for leaf, whole, is_part in of_all]
        rows = tf.nest.pack_sequence_as(part.data, chosen)
    else:
        rows = _with_gathered(part, leaves, are_parts)
    shared = part.shared | {i for i, is_part in enumerate(are_parts) if is_part}
    return part._replace(data=rows, shared=shared)


def part_to_compute(part: Part) -> tuple[Part, bool]:
    """Return the rows of each rank and True, or the whole batch and False. Collective."""
    part = with_whole_values(part)
    if part.num_global < num_lanes():  # not a sample for each
        return part._replace(data=as_tensors(whole_batch(part))), False
    if part.sizes:
        part = with_whole_values(cut(whole_batch(part)))
    return part, True


def as_tensors(batch: Any) -> Any:
    """Return a batch of tensors and None. Local."""
    return tf.nest.map_structure(
        lambda leaf: leaf if leaf is None or tf.is_tensor(leaf) else tf.convert_to_tensor(leaf),
        batch,
    )


def _with_gathered(part: Part, leaves: list[Any], are_parts: list[bool]) -> Any:
    """Return the structure of the part with some of its leaves from all ranks."""
    with_rows = [leaf for leaf, is_part in zip(leaves, are_parts, strict=True) if is_part]
    if not with_rows or not part.num_global:
        return part.data
    sizes = part.sizes or even_sizes(part.num_global)
    own = tf.nest.flatten(with_rows, expand_composites=True)
    messages = allgather("rows of a batch", pickle.dumps([each.numpy() for each in own]))
    of_ranks = [
        _unpacked(message, with_rows) for message, size in zip(messages, sizes, strict=True) if size
    ]
    rows = _rows_of_ranks(part.num_global)
    if part.sizes:
        rows = [range(rank, size * len(sizes), len(sizes)) for rank, size in enumerate(sizes)]
    order = tf.constant(np.argsort(np.concatenate(rows)), tf.int64)
    joined = (_joined(of_leaf, order) for of_leaf in zip(*of_ranks, strict=True))
    all_leaves = [
        next(joined) if is_part else x for x, is_part in zip(leaves, are_parts, strict=True)
    ]
    return tf.nest.pack_sequence_as(part.data, all_leaves)


def _unpacked(message: bytes, like: list[Any]) -> list[Any]:
    dtypes = [component.dtype for component in tf.nest.flatten(like, expand_composites=True)]
    specs = [with_shape(tf.type_spec_from_value(leaf), [None] * leaf.shape.rank) for leaf in like]
    arrays = zip(pickle.loads(message), dtypes, strict=True)
    components = [tf.constant(array, dtype) for array, dtype in arrays]
    return tf.nest.pack_sequence_as(specs, components, expand_composites=True)


def _joined(of_ranks: tuple[Any, ...], order: tf.Tensor) -> Any:
    try:
        is_sparse = isinstance(of_ranks[0], tf.SparseTensor)
        joined = tf.sparse.concat(0, list(of_ranks)) if is_sparse else tf.concat(of_ranks, axis=0)
        return rows_at(in_order_of_rows(joined), order)
    except tf.errors.InvalidArgumentError:
        shapes = [str(tuple(leaf.shape)) for leaf in of_ranks]
        text = (
            f"Rank {get_rank()}: the samples of ranks have different shapes, so they cannot form "
            f"a batch: {', '.join(shapes)}. Pad them to the same shape, or bucket them in the "
            "same way."
        )
        raise of_all_ranks(ValueError(text)) from None


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


def with_shape(spec: Any, shape: Any) -> Any:
    """Return the spec of a dense, ragged or sparse tensor with another shape. Pure."""
    if isinstance(spec, tf.RaggedTensorSpec):
        return tf.RaggedTensorSpec(shape, spec.dtype, spec.ragged_rank, spec.row_splits_dtype)
    if isinstance(spec, tf.SparseTensorSpec):
        return tf.SparseTensorSpec(shape, spec.dtype)
    return tf.TensorSpec(shape, spec.dtype)


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, (np.ndarray, np.generic, int, float))
