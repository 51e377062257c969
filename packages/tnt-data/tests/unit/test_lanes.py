"""A rank with several lanes has the rows of each in turn, and runs functions for no others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from simulated_ranks import PICK, SLICE, Seen, epochs_of_rank, serial_epochs

import tnt_data
from tnt_data import RowSplit

Data = tf.data.Dataset
AT_LEISURE = settings(
    deadline=None,
    suppress_health_check=list(HealthCheck),
    max_examples=max(1, settings().max_examples * 12 // 100),
)


def dense(x: tf.Tensor) -> Any:
    return x, tf.stack([x, -x])


def ragged(x: tf.Tensor) -> Any:
    return {"x": tf.RaggedTensor.from_tensor(tf.fill([x % 3, 2], x), ragged_rank=1), "y": x}


def sparse(x: tf.Tensor) -> Any:
    return tf.sparse.from_dense(tf.one_hot([x % 5, x % 3], 5) * tf.cast(x, tf.float32)), x


KINDS: dict[str, Callable[[tf.Tensor], Any]] = {"dense": dense, "ragged": ragged, "sparse": sparse}


def put_back(parts: list[Seen], splits: list[RowSplit]) -> Any:
    """The batch of which ranks have these parts, each row in its place."""
    num_global = parts[0].num_global
    leaves = []
    for of_ranks in zip(*(tf.nest.flatten(part.data) for part in parts), strict=True):
        whole = np.empty([num_global, *of_ranks[0].shape[1:]], of_ranks[0].dtype)
        for rows, split in zip(of_ranks, splits, strict=True):
            whole[split.positions(num_global)] = rows[: split.num_rows(num_global)]
        leaves.append(whole)
    return tf.nest.pack_sequence_as(parts[0].data, leaves)


@pytest.mark.parametrize("way", [PICK, SLICE], ids=["picked", "cut"])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_all_ranks_in_their_places_are_the_serial_batches(kind: str, way: int) -> None:
    @settings(AT_LEISURE)
    @given(
        num_samples=st.integers(1, 30),
        batch_size=st.integers(1, 14),
        size=st.integers(2, 4),
        lanes_of_rank=st.integers(1, 4),
        drop=st.booleans(),
    )
    def check(num_samples: int, batch_size: int, size: int, lanes_of_rank: int, drop: bool) -> None:
        def make() -> tf.data.Dataset:
            samples = Data.range(num_samples).shuffle(num_samples, seed=3).map(KINDS[kind])
            return samples.batch(batch_size, drop_remainder=drop)

        lanes = size * lanes_of_rank
        splits = [RowSplit(rank, size, lanes) for rank in range(size)]
        of_ranks = [
            epochs_of_rank(make, rank, size, way=way, epochs=2, lanes=lanes) for rank in range(size)
        ]
        serial = serial_epochs(make, epochs=2)
        for epoch, batches in enumerate(serial):
            assert {len(each[epoch]) for each in of_ranks} == {len(batches)}
            for step, batch in enumerate(batches):
                parts = [each[epoch][step] for each in of_ranks]
                assert [part.num_local for part in parts] == [
                    split.num_rows(parts[0].num_global) for split in splits
                ]
                assert_equal(put_back(parts, splits), batch)

    check()


def assert_equal(element: Any, expected: Any) -> None:
    tf.nest.map_structure(np.testing.assert_array_equal, element, expected)


@given(
    batch_size=st.integers(1, 14),
    num_samples=st.integers(1, 30),
    size=st.integers(2, 4),
    lanes_of_rank=st.integers(2, 4),
)
@settings(AT_LEISURE)
def test_functions_run_for_the_rows_of_a_rank_alone(
    batch_size: int, num_samples: int, size: int, lanes_of_rank: int
) -> None:
    seen: list[int] = []

    def note(x: int) -> int:
        seen.append(int(x))
        return x

    lanes = size * lanes_of_rank
    for rank in range(size):
        samples = Data.range(num_samples).map(
            lambda x: tf.numpy_function(note, [x], tf.int64), num_parallel_calls=2
        )
        for _ in tnt_data.distribute(samples.batch(batch_size), rank, size, lanes=lanes):
            pass
        split = RowSplit(rank, size, lanes)
        expected = [
            begin + row
            for begin in range(0, num_samples, batch_size)
            for row in split.rows(min(batch_size, num_samples - begin))
        ]
        assert sorted(seen) == sorted(expected)
        seen.clear()


@pytest.mark.parametrize("way", [PICK, SLICE], ids=["picked", "cut"])
def test_fewer_samples_than_lanes_leave_high_ranks_with_a_duplicate_of_the_first(way: int) -> None:
    def make() -> tf.data.Dataset:
        return Data.range(100, 103).map(abs).batch(16)

    (first,), (second,) = (epochs_of_rank(make, rank, 2, way=way, lanes=8)[0] for rank in range(2))
    assert (first.data.tolist(), first.num_local, first.num_global) == ([100, 101, 102], 3, 3)
    assert (second.data.tolist(), second.num_local, second.num_global) == ([100], 0, 3)


def test_single_rank_has_the_rows_in_the_order_of_the_batch() -> None:
    dataset = Data.range(10).batch(5)
    assert tnt_data.Pipeline(dataset).distribute(0, 1, lanes=4) is tnt_data.distribute(
        dataset, 0, 1
    )
    whole = [part.data.numpy().tolist() for part in tnt_data.slice_batches(dataset, 0, 1, lanes=4)]
    assert whole == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]


def test_each_number_of_lanes_has_its_own_dataset() -> None:
    dataset = Data.range(10).batch(5)
    two, four = (tnt_data.distribute(dataset, 0, 2, lanes=lanes) for lanes in (2, 4))
    assert two is tnt_data.distribute(dataset, 0, 2)
    assert four is tnt_data.distribute(dataset, 0, 2, lanes=4) is not two


def test_ranks_that_cannot_share_the_lanes_are_refused() -> None:
    dataset = Data.range(10).batch(5)
    with pytest.raises(ValueError, match=r"lanes=3, size=2"):
        tnt_data.distribute(dataset, 0, 2, lanes=3)
    with pytest.raises(ValueError, match=r"lanes=3, size=2"):
        tnt_data.slice_batches(dataset, 0, 2, lanes=3)
    with pytest.raises(ValueError, match=r"lanes=3, size=2"):
        tnt_data.explain(dataset, 2, lanes=3)


def test_number_of_rows_stays_known_where_that_of_the_batch_is() -> None:
    batches = Data.range(20).batch(10, drop_remainder=True)
    for rank in range(2):
        spec = tnt_data.slice_batches(batches, rank, 2, lanes=4).element_spec
        assert spec.data.shape == [RowSplit(rank, 2, 4).num_rows(10)]


def batches_of_graphs() -> Iterator[Any]:
    for num_graphs, num_nodes in [(5, 7), (3, 3), (1, 2)]:
        yield np.arange(num_nodes), 10 * np.arange(num_graphs)


def test_components_with_other_numbers_of_rows_stay_whole() -> None:
    spec = (tf.TensorSpec([None], tf.int64), tf.TensorSpec([None], tf.int64))
    graphs = Data.from_generator(batches_of_graphs, output_signature=spec)
    for rank in range(2):
        split = RowSplit(rank, 2, 4)
        parts = tnt_data.slice_batches(graphs, rank, 2, may_differ=True, lanes=4)
        for (nodes, labels), part in zip(batches_of_graphs(), parts, strict=True):
            is_shared = len(nodes) != len(labels)
            assert part.shared.numpy().tolist() == [is_shared, False]
            own = split.rows(len(labels))
            assert_equal(part.data[0].numpy(), nodes if is_shared else nodes[list(own)])
            assert_equal(part.data[1].numpy(), labels[list(own)])


def test_entries_of_sparse_batches_may_be_in_any_order() -> None:
    indices, values = [[3, 1], [0, 0], [2, 1], [1, 0], [3, 0]], [31, 0, 21, 10, 30]
    batch = tf.SparseTensor(indices, values, [5, 2])
    (part,) = tnt_data.slice_batches(Data.from_tensors(batch), 0, 2, lanes=4)
    expected = tf.sparse.to_dense(tf.sparse.reorder(batch)).numpy()[[0, 4, 1]]
    assert_equal(tf.sparse.to_dense(part.data).numpy(), expected)


def test_fingerprints_of_all_ranks_are_equal_and_those_without_lanes() -> None:
    def fingerprints(rank: int, lanes: int | None) -> list[int]:
        dataset = Data.range(23).map(lambda x: 2 * x).batch(8)
        parts = tnt_data.distribute(dataset, rank, 2, lanes=lanes, fingerprint=True)
        return [int(part.fingerprint) for part in parts]

    expected = fingerprints(0, None)
    assert len(set(expected)) == 3
    assert fingerprints(0, 4) == fingerprints(1, 4) == expected


def test_explanation_tells_the_lanes_and_the_samples_of_each_rank() -> None:
    text = tnt_data.explain(Data.range(13).batch(10), 2, lanes=4)
    assert "Rank r of 2 takes lanes 2r to 2r + 1 of 4, one after the other" in text
    assert "First batch: 10 samples, 6, 4 on ranks 0 to 1." in text
    assert "Last batch of a pass: 3 samples, 2, 1 on ranks 0 to 1." in text
