"""Bring the rows of all ranks to each of them, in the order of the batch: any dtype, any kind."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import tensorflow as tf

from tnt_keras.calls.errors import DifferentInputError
from tnt_keras.calls.messages import allgather
from tnt_keras.process.rank import get_rank, get_size
from tnt_keras.step.batch_part import BatchPart, cut, has_rows, in_order_of_rows, rows_at
from tnt_keras.step.signature import with_shape

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
    if not with_rows:
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


def order_of_rows(sizes: tuple[int, ...]) -> list[int]:
    """Return the place of each row of a batch in the concatenation of the parts of ranks. Pure."""
    begins = [sum(sizes[:rank]) for rank in range(len(sizes))]
    rows = sorted((row, rank) for rank, size in enumerate(sizes) for row in range(size))
    return [begins[rank] + row for row, rank in rows]


def _packed(leaves: list[Any]) -> bytes:
    components = tf.nest.flatten(leaves, expand_composites=True)
    texts = [tf.io.serialize_tensor(component).numpy() for component in components]
    return json.dumps([len(text) for text in texts]).encode() + b"\n" + b"".join(texts)


def _unpacked(message: bytes, like: list[Any]) -> list[Any]:
    header, _, rest = message.partition(b"\n")
    dtypes = [component.dtype for component in tf.nest.flatten(like, expand_composites=True)]
    specs = [with_shape(tf.type_spec_from_value(leaf), [None] * leaf.shape.rank) for leaf in like]
    components, begin = [], 0
    for length, dtype in zip(json.loads(header), dtypes, strict=True):
        components.append(tf.io.parse_tensor(rest[begin : begin + length], dtype))
        begin += length
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
