"""This rank's part of the batch that a step computes, and the whole of it where that is needed."""

from __future__ import annotations

import dataclasses
import pickle
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tnt_data import MicroBatch
from tnt_keras.calls.errors import DifferentInputError
from tnt_keras.calls.messages import allgather
from tnt_keras.process.rank import get_rank, get_size
from tnt_keras.step.data_check import NO_LABEL, DataCheck
from tnt_keras.step.rows import (
    has_rows,
    in_order_of_rows,
    num_rows,
    order_of_rows,
    rows_at,
    take,
    with_shape,
)


class CheckedBatch(NamedTuple):
    """What ranks compare before the step: this rank's part of a batch, or samples of its own."""

    batch: Any  # a `MicroBatch`; or own samples: those of all ranks together are the global batch
    label_without_weight: Any = NO_LABEL  # as for `DataCheck`, int64 scalar


def has_own_samples(element: Any) -> bool:
    """Return whether a batch is one of this rank's own samples. Local."""
    return isinstance(element, CheckedBatch) and not isinstance(element.batch, MicroBatch)


def unmarked(element: Any) -> Any:
    """Return the batch in what `part_of` takes, or its spec in a spec of that. Pure."""
    if isinstance(element, CheckedBatch):
        element = element.batch
    return element.data if isinstance(element, MicroBatch) else element


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
    """Return this rank's part of the batch that an element is. Collective for `CheckedBatch`es.

    `fit`, `evaluate` and `predict` feed these or micro-batches. Anything else, such as the
    arguments of `train_on_batch`, is a global batch, the same on all ranks.
    """
    if isinstance(element, CheckedBatch):
        return _checked(element.batch, int(element.label_without_weight), data_check())
    return _part_of_micro_batch(element) if isinstance(element, MicroBatch) else cut(element)


def _checked(batch: Any, label: int, check: DataCheck) -> BatchPart:
    if isinstance(batch, MicroBatch):
        fingerprint = int(batch.fingerprint) ^ _number_of_shapes(batch.data)
        check.same_batch(int(batch.num_local), int(batch.num_global), fingerprint, label)
        return _part_of_micro_batch(batch)
    num_local = int(num_rows(batch))
    sizes = check.sizes_of_ranks(num_local, _number_of_shapes(batch), label)
    if _with_other_rows(batch, num_local):
        raise ValueError(
            "A batch of a rank's own samples has parts without a row for each sample, such as the "
            "nodes and edges of graphs, so that those of ranks do not make up one batch: let ranks "
            "share the batches of one dataset."
        )
    return BatchPart(batch, tuple(sizes))


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
        leaf if i in are_parts else take(leaf, own, i in shared) for i, leaf in enumerate(leaves)
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


_NAME = "rows of a batch"


def whole_batch(part: BatchPart) -> Any:
    """Return the batch of which each rank has a part. Collective, unless this rank has all.

    Row p of a batch that Tarantella has split over n ranks is row p // n of rank p mod n. Of
    samples that ranks share by themselves the first of each rank come first, then the second ones,
    and so on. Duplicates, which ranks without samples have, are left out.
    """
    if part.whole is not None:
        return part.whole
    leaves = tf.nest.flatten(part.rows)
    are_parts = [has_rows(leaf) and i not in part.shared for i, leaf in enumerate(leaves)]
    return _with_gathered(part, leaves, are_parts)


def with_whole_values(part: BatchPart) -> BatchPart:
    """Return the part with all of its ragged and sparse leaves. Collective, if there are any."""
    leaves = tf.nest.flatten(part.rows)
    are_parts = [
        isinstance(leaf, (tf.RaggedTensor, tf.SparseTensor)) and i not in part.shared
        for i, leaf in enumerate(leaves)
    ]
    if not any(are_parts):
        return part
    if part.whole is None:
        rows = _with_gathered(part, leaves, are_parts)
    else:
        of_all = tf.nest.flatten(part.whole)
        rows = tf.nest.pack_sequence_as(
            part.rows,
            [
                in_order_of_rows(whole) if is_part else leaf
                for leaf, whole, is_part in zip(leaves, of_all, are_parts, strict=True)
            ],
        )
    shared = part.shared | {i for i, is_part in enumerate(are_parts) if is_part}
    return dataclasses.replace(part, rows=rows, shared=shared)


def part_to_compute(part: BatchPart) -> tuple[BatchPart, bool]:
    """Return the rows that each rank computes and True, or the whole batch and False. Collective.

    The batch is cut if it has a sample for each rank.
    """
    part = with_whole_values(part)
    if part.num_global < get_size():
        return dataclasses.replace(part, rows=as_tensors(whole_batch(part))), False
    if not part.is_cut_evenly:
        part = with_whole_values(cut(whole_batch(part)))
    return part, True


def as_tensors(batch: Any) -> Any:
    """Return a batch of tensors and None. Local."""
    return tf.nest.map_structure(
        lambda leaf: leaf if leaf is None or tf.is_tensor(leaf) else tf.convert_to_tensor(leaf),
        batch,
    )


def _with_gathered(part: BatchPart, leaves: list[Any], are_parts: list[bool]) -> Any:
    """Return the structure of the part with some of its leaves from all ranks."""
    with_rows = [leaf for leaf, is_part in zip(leaves, are_parts, strict=True) if is_part]
    if not with_rows or not part.num_global:
        return part.rows
    of_ranks = [
        _unpacked(message, with_rows)
        for message, size in zip(allgather(_NAME, _packed(with_rows)), part.sizes, strict=True)
        if size
    ]
    order = tf.constant(order_of_rows(part.sizes), tf.int64)
    joined = iter([_joined(of_leaf, order) for of_leaf in zip(*of_ranks, strict=True)])
    return tf.nest.pack_sequence_as(
        part.rows,
        [
            next(joined) if is_part else leaf
            for leaf, is_part in zip(leaves, are_parts, strict=True)
        ],
    )


def _packed(leaves: list[Any]) -> bytes:
    return pickle.dumps([each.numpy() for each in tf.nest.flatten(leaves, expand_composites=True)])


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
        raise DifferentInputError(
            f"Rank {get_rank()}: the samples of ranks have different shapes, so that they are no "
            f"batch: {', '.join(shapes)}. Pad them alike, or bucket them in the same way."
        ) from None
