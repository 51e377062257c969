"""All kinds of elements: structures, ragged, sparse and string components, scalars, None."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf
from cases import cases
from simulated_ranks import PICK, SLICE, assert_ranks_share_serial_batches, epochs_of_rank

import tnt_data
from tnt_data import UnsupportedElementError

Data = tf.data.Dataset
ways = pytest.mark.parametrize("way", [PICK, SLICE], ids=["pick", "slice"])


class Pair(NamedTuple):
    image: Any
    label: Any


STRUCTURES = {
    "named tuple": lambda x: Pair(tf.stack([x, x]), x),
    "nested": lambda x: {"a": (x, {"b": tf.as_string(x)}), "c": [x, -x]},
    "one element tuple": lambda x: (x,),
    "bfloat16 and bool": lambda x: (tf.cast(x, tf.bfloat16), x > 3),
}


@ways
@pytest.mark.parametrize("structure", STRUCTURES)
@cases("size", [4], thorough=[2, 5])
def test_structure_is_kept(structure: str, size: int, way: int) -> None:
    def make() -> tf.data.Dataset:
        return Data.range(11).map(STRUCTURES[structure]).batch(4)

    assert_ranks_share_serial_batches(make, make, size, way=way)
    serial = tf.nest.map_structure(lambda spec: (spec.dtype, spec.shape), make().element_spec)
    data = tnt_data.distribute(make(), 0, size).element_spec.data
    assert tf.nest.map_structure(lambda spec: (spec.dtype, spec.shape), data) == serial


@pytest.mark.parametrize("size", [1, 2, 4])
def test_ragged_rows_are_shared(size: int) -> None:
    def make() -> tf.data.Dataset:
        return Data.range(7).map(lambda x: (tf.range(x), x)).ragged_batch(3)

    serial = [(ragged.to_list(), x.numpy().tolist()) for ragged, x in make()]
    for rank in range(size):
        (seen,) = epochs_of_rank(make, rank, size)
        for step, (ragged, numbers) in zip(seen, serial, strict=True):
            first = rank if rank < len(numbers) else 0
            assert step.data[0].tolist() == ragged[first::size]
            assert step.data[1].tolist() == numbers[first::size]


@pytest.mark.parametrize("size", [1, 2, 4])
def test_sparse_rows_are_shared(size: int) -> None:
    def make() -> tf.data.Dataset:
        rows = Data.range(7).map(lambda x: tf.sparse.from_dense(tf.stack([x, x % 2, 0 * x])))
        return rows.batch(3)

    assert_ranks_share_serial_batches(make, make, size)


@pytest.mark.parametrize("size", [2, 3])
def test_components_without_rows_go_to_every_rank(size: int) -> None:
    def make() -> tf.data.Dataset:
        return Data.range(7).batch(3).enumerate()

    assert_ranks_share_serial_batches(make, make, size)


def test_none_stays_none() -> None:
    dataset = Data.range(4).batch(4).map(lambda x: (x, None))
    (micro_batch,) = tnt_data.distribute(dataset, 1, 2)
    assert micro_batch.data[0].numpy().tolist() == [1, 3]
    assert micro_batch.data[1] is None


def test_batch_emptied_by_a_function_stays_empty_on_every_rank() -> None:
    dataset = Data.range(4).batch(2).map(lambda x: tf.boolean_mask(x, x >= 2))
    for rank in range(2):
        empty, full = tnt_data.distribute(dataset, rank, 2)
        assert (len(empty.data), int(empty.num_local), int(empty.num_global)) == (0, 0, 0)
        assert full.data.numpy().tolist() == [2 + rank]


@ways
def test_padding_to_fixed_shapes_is_that_of_the_serial_batch(way: int) -> None:
    def make() -> tf.data.Dataset:
        samples = Data.range(7).map(lambda x: {"a": tf.range(x), "b": (x,)})
        minus_one = tf.constant(-1, tf.int64)
        return samples.padded_batch(3, {"a": [9], "b": ([],)}, {"a": minus_one, "b": (minus_one,)})

    assert_ranks_share_serial_batches(make, make, 2, way=way)


def test_padding_to_the_longest_sample_is_that_of_the_whole_batch() -> None:
    def make() -> tf.data.Dataset:
        return Data.range(1, 8).map(tf.range).padded_batch(3)

    assert_ranks_share_serial_batches(make, make, 2, way=PICK)


def test_functions_after_the_batch_see_the_whole_batch() -> None:
    def make() -> tf.data.Dataset:
        batches = Data.range(10).map(lambda x: tf.cast(x, tf.float32)).batch(4)
        return batches.map(lambda x: x - tf.reduce_mean(x)).cache().repeat(2)

    assert_ranks_share_serial_batches(make, make, 3, way=PICK)


def test_large_batches_are_picked_and_known_sizes_stay_known() -> None:
    image = tf.ones([300, 300])
    dataset = Data.range(9).map(lambda x: (image * tf.cast(x, tf.float32), x))
    picked = tnt_data.distribute(dataset.batch(4, drop_remainder=True), 0, 3)
    assert "joins this rank's samples only" in tnt_data.explain(dataset.batch(4), 3)
    assert picked.element_spec.data[0].shape == [2, 300, 300]
    for k, micro_batch in enumerate(picked):
        np.testing.assert_array_equal(micro_batch.data[0][:, 0, 0], [4 * k, 4 * k + 3])


def test_differing_numbers_of_rows_are_refused() -> None:
    known = Data.range(4).batch(4, drop_remainder=True).map(lambda x: (x, x[:3]))
    with pytest.raises(UnsupportedElementError, match="4 and 3 rows"):
        tnt_data.distribute(known, 0, 2)
    unknown = Data.range(4).batch(4).map(lambda x: (x, x[:-1]))
    words = "differ in their number of rows: x has a different number than the targets"
    with pytest.raises(tf.errors.InvalidArgumentError, match=words):
        list(tnt_data.distribute(unknown, 0, 2))


def _graphs() -> tf.data.Dataset:
    """Batches of 4 and 3 samples, with one row more than three for each sample, and one row."""

    def merged(x: tf.Tensor) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        nodes = tf.concat([tf.repeat(x, 3), x[:1]], 0)
        words = tf.RaggedTensor.from_row_lengths(tf.range(tf.reduce_sum(x)), x)
        return {"nodes": nodes, "one": tf.constant([[7, 8]]), "words": words}, 10 * x

    return Data.range(7).batch(4).map(merged)


def test_parts_with_other_rows_than_the_targets_go_to_all_ranks_if_they_may() -> None:
    batches = list(_graphs())
    for rank in range(3):
        parts = list(tnt_data.Pipeline(_graphs()).distribute(rank, 3, may_differ=True))
        for (x, y), part in zip(batches, parts, strict=True):
            rows, targets = part.data
            assert part.shared.numpy().tolist() == [True, True, False, False]
            assert rows["nodes"].numpy().tolist() == x["nodes"].numpy().tolist()
            assert rows["one"].numpy().tolist() == [[7, 8]]
            assert rows["words"].to_list() == x["words"].to_list()[rank::3]
            assert targets.numpy().tolist() == y.numpy().tolist()[rank::3]
            assert (int(part.num_local), int(part.num_global)) == (len(targets), len(y))


def test_no_part_is_shared_where_a_transformation_has_joined_samples() -> None:
    data = Data.range(7).map(lambda x: (x, 2 * x)).batch(4)
    for part in tnt_data.Pipeline(data).distribute(0, 2, may_differ=True):
        assert part.shared == ()


def test_a_function_of_rows_after_the_split_leaves_no_room_for_other_rows() -> None:
    swapped = Data.range(4).batch(4).map(lambda x: (x, x[:-1])).map(lambda x, y: (y, x))
    with pytest.raises(tf.errors.InvalidArgumentError, match="differ in their number of rows"):
        list(tnt_data.Pipeline(swapped).distribute(0, 2, may_differ=True))


@pytest.mark.parametrize(
    ("build", "calls_python"),
    [
        (lambda: Data.range(3), False),
        (lambda: Data.from_generator(lambda: iter([1]), tf.int32), True),
        (lambda: Data.range(3).map(lambda x: tf.py_function(int, [x], tf.int64)).batch(2), True),
    ],
)
def test_python_code_in_a_pipeline_is_seen(build: Any, calls_python: bool) -> None:
    assert tnt_data.Pipeline(build()).calls_python == calls_python


def test_elements_without_rows_are_refused() -> None:
    with pytest.raises(UnsupportedElementError, match="no rows that ranks could share"):
        tnt_data.distribute(Data.range(4).batch(2).map(tf.reduce_sum), 0, 2)
    with pytest.raises(UnsupportedElementError, match="DatasetSpec"):
        tnt_data.distribute(Data.range(4).batch(2).map(lambda x: (x, Data.range(3))), 0, 2)
