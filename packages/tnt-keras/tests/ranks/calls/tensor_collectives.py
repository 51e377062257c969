"""Collectives on values of all kinds, each twice on one object."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tnt_comm
import tnt_keras
from tnt_keras import Barrier, Group, TensorAllgatherer, TensorAllreducer, TensorBroadcaster

Pair = collections.namedtuple("Pair", "left right")

VALUES: dict[str, Callable[[int], Any]] = {
    "int": lambda rank: 10 + rank,
    "float": lambda rank: 0.5 * rank,
    "bool": lambda rank: rank == 1,
    "NumPy scalar": lambda rank: np.float32(rank + 1),
    "int16": lambda rank: np.int16(rank - 3),
    "array": lambda rank: np.arange(6, dtype=np.float64).reshape(2, 3) * (rank + 1),
    "scalar array": lambda rank: np.array(rank, np.int32),
    "empty array": lambda rank: np.zeros((0, 3), np.float32),
    "not a number": lambda rank: np.array([np.nan, np.inf, 1.0]),
    "tensor": lambda rank: tf.fill((2, 2), tf.cast(rank, tf.float16)),
    "bfloat16 tensor": lambda rank: tf.cast(tf.range(3) + rank, tf.bfloat16),
    "scalar tensor": lambda rank: tf.constant(rank, tf.int64),
    "list": lambda rank: [rank, np.ones(2) * rank, [tf.constant([rank])]],
    "empty list": lambda rank: [],
    "dict": lambda rank: {"b": np.array([rank]), "a": {"c": 2.0 * rank}},
    "tuple": lambda rank: (rank, (np.ones(1, np.int8) * rank,), Pair(rank, [1.0])),
}


def plain(nest: Any) -> Any:
    """A nest with kinds, dtypes and values written out, to compare."""

    def describe(value: Any) -> Any:
        kind = "tensor" if isinstance(value, tf.Tensor) else type(value).__name__
        array = np.asarray(value)
        return kind, str(array.dtype), np.array2string(array.astype("float64")), array.shape

    return tf.nest.map_structure(describe, nest)


def _twice(operation: Any, call: Callable[[Any], Any], value: Any) -> Any:
    """What the call returns, the second time begun and waited for."""
    first = plain(call(value))
    operation.start(value)
    assert plain(operation.wait_for_completion(value)) == first
    return first


def all_kinds(kinds: list[str]) -> dict[str, dict[str, Any]]:
    """Results of the three collectives on values of the kinds."""
    rank, root = tnt_keras.get_rank(), tnt_keras.get_size() - 1
    results: dict[str, dict[str, Any]] = {}
    for kind in kinds:
        value = VALUES[kind](rank)
        reducer, gatherer = TensorAllreducer(value), TensorAllgatherer(value)
        sender = TensorBroadcaster(VALUES[kind](0), root)
        own = value if rank == root else None
        results[kind] = {
            "allreduce": _twice(reducer, reducer.allreduce, value),
            "broadcast": _twice(sender, sender.broadcast, own),
            "allgather": _twice(gatherer, gatherer.allgather, value),
        }
    return results


def sum_of_ints(values: list[int]) -> tuple[int, list[int]]:
    """The sum of one int for each rank, and of those in a list."""
    own = values[tnt_keras.get_rank()]
    return TensorAllreducer(0).allreduce(own), TensorAllreducer([1, 2]).allreduce([own, -own])


def gather_different_lengths() -> list[Any]:
    """Ranks give arrays of as many rows as their number, and others the second time."""
    rank = tnt_keras.get_rank()
    gatherer = TensorAllgatherer(np.full((rank, 2), rank))
    return [gatherer.allgather(np.full((n, 2), rank)).tolist() for n in (rank, 2 - rank % 2)]


def in_groups() -> dict[str, Any]:
    """Collectives of the first two ranks alone."""
    if tnt_keras.get_rank() > 1:
        return {}
    group = Group([0, 1])
    Barrier(group).execute()
    return {
        "master": tnt_keras.get_group_master_rank(group),
        "is master": tnt_keras.is_group_master_rank(group),
        "sum": TensorAllreducer(0, group).allreduce(tnt_keras.get_rank() + 1),
        "root": TensorBroadcaster(0, 1, group).broadcast(tnt_keras.get_rank()),
        "all": TensorAllgatherer(0, group=group).allgather(tnt_keras.get_rank()).tolist(),
    }


METHODS: dict[str, Callable[[Any, Group], Callable[[Any], Any]]] = {
    "TensorAllreducer": lambda nest, group: TensorAllreducer(nest, group).allreduce,
    "TensorBroadcaster": lambda nest, group: TensorBroadcaster(nest, 0, group).broadcast,
    "TensorAllgatherer": lambda nest, group: TensorAllgatherer(nest, group).allgather,
}

DIFFERENT_NESTS: dict[str, tuple[Any, Any]] = {
    "keys": ({"loss": 1.0, "n": 10.0}, {"acc": 0.5, "loss": 2.0}),
    "later key": ({"a": 1, "b": 2}, {"a": 1, "c": 2}),
    "list and dict": ([1], {"a": 1}),
    "scalar and array": (1.0, np.ones(1)),
    "nesting": ([1, [2, 3]], [[1, 2], 3]),
    "lengths": ([1, 2], [1, 2, 3]),
    "no values": ([], [1]),
}


def different_nests(operation: str, kind: str) -> str:
    """What a rank is told whose nest has another structure than that of the other rank."""
    nest = DIFFERENT_NESTS[kind][tnt_keras.get_rank()]
    group = Group([0, 1])  # which is broken afterwards, and the world is not
    call = METHODS[operation](nest, group)
    with pytest.raises(tnt_comm.MismatchError) as caught:
        call(nest)
    return str(caught.value)


def overlapped() -> list[Any]:
    """Two operations under way at the same time, whose values are changed after the start."""
    first, second = np.ones(3), [1]
    reducer, other = TensorAllreducer(first), TensorAllreducer(second)
    reducer.start(first)
    other.start(second)
    first[:] = 100
    Barrier().execute()
    return [other.wait_for_completion(), reducer.wait_for_completion().tolist()]
