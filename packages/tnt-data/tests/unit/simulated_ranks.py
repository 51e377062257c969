"""What several ranks see of a pipeline, simulated one after the other in one process.

Every rank builds the pipeline itself, as in separate processes: a dataset object counts how often
it was shuffled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tnt_data import Pipeline
from tnt_data.elements.row_split import split_of_dataset

PICK = 0
SLICE = 2**62
Make = Callable[[], tf.data.Dataset]


class Seen(NamedTuple):
    """One micro-batch of numpy arrays; ragged components are arrays of lists, sparse ones dense."""

    data: Any
    num_local: int
    num_global: int


def plain(component: Any) -> Any:
    if isinstance(component, tf.RaggedTensor):
        rows = np.empty(component.nrows(), object)
        rows[:] = component.to_list()
        return rows
    if isinstance(component, tf.SparseTensor):
        return tf.sparse.to_dense(component).numpy()
    return component.numpy()


def epochs_of_rank(
    make: Make,
    rank: int,
    size: int,
    *,
    way: int = SLICE,
    epochs: int = 1,
    m: int | None = None,
    lanes: int | None = None,
) -> list[list[Seen]]:
    split = split_of_dataset(rank, size, lanes)
    dataset = Pipeline(make())._distribute(split, m, 42, False, way)
    return [
        [
            Seen(tf.nest.map_structure(plain, one.data), int(one.num_local), int(one.num_global))
            for one in dataset
        ]
        for _ in range(epochs)
    ]


def serial_epochs(make: Make, epochs: int = 1) -> list[list[Any]]:
    dataset = make()
    return [[tf.nest.map_structure(plain, one) for one in dataset] for _ in range(epochs)]


def assert_ranks_share_serial_batches(
    make: Make,
    make_serial: Make,
    size: int,
    *,
    way: int = SLICE,
    epochs: int = 1,
    lanes: int | None = None,
) -> None:
    """Step k of each rank must hold the rows of its lanes of the serial batch k."""
    expected = serial_epochs(make_serial, epochs)
    for rank in range(size):
        seen = epochs_of_rank(make, rank, size, way=way, epochs=epochs, lanes=lanes)
        assert [len(epoch) for epoch in seen] == [len(epoch) for epoch in expected]
        for seen_epoch, expected_epoch in zip(seen, expected, strict=True):
            for micro_batch, batch in zip(seen_epoch, expected_epoch, strict=True):
                assert_is_part_of(micro_batch, batch, rank, size, lanes)


def assert_is_part_of(
    micro_batch: Seen, batch: Any, rank: int, size: int, lanes: int | None = None
) -> None:
    """Its rows must be `batch[v::lanes]` of each lane v of a rank, or the first row without any."""
    rows = [component for component in tf.nest.flatten(batch) if np.ndim(component)]
    num_global = len(rows[0])
    assert micro_batch.num_global == num_global
    lanes = size if lanes is None or size == 1 else lanes
    own = [lane for lane in range(lanes) if lane * size // lanes == rank]
    positions = [position for lane in own for position in range(lane, num_global, lanes)]
    assert micro_batch.num_local == len(positions)
    positions = positions or [0][:num_global]
    tf.nest.assert_same_structure(micro_batch.data, batch)
    for got, whole in zip(tf.nest.flatten(micro_batch.data), tf.nest.flatten(batch), strict=True):
        np.testing.assert_array_equal(got, whole[positions] if np.ndim(whole) else whole)
