"""`tnt.data.Dataset`: the parts of all ranks, looked at in one process."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

import tnt_data
from tnt_keras import data

Data = tf.data.Dataset
GOLDEN: dict[tuple[int, int, int, bool], list[list[list[int]]]] = {
    (12, 6, 3, False): [[[0, 3], [6, 9]], [[1, 4], [7, 10]], [[2, 5], [8, 11]]],
    (19, 8, 3, True): [
        [[0, 3, 6], [8, 11, 14]],
        [[1, 4, 7], [9, 12, 15]],
        [[2, 5], [10, 13]],
    ],
    (10, 8, 3, False): [[[0, 3, 6], [8]], [[1, 4, 7], [9]], [[2, 5], [8]]],
}


def batches_of(dataset: tf.data.Dataset) -> list[Any]:
    return [batch.tolist() for batch in dataset.as_numpy_iterator()]


@pytest.mark.parametrize("example", GOLDEN)
def test_parts_are_those_of_the_golden_examples(example: tuple[int, int, int, bool]) -> None:
    num_samples, batch_size, size, drop_remainder = example
    dataset = Data.range(num_samples).batch(batch_size, drop_remainder)
    for rank in range(size):
        part = data.Dataset(dataset, num_ranks=size, rank=rank)
        assert batches_of(part.distribute_dataset_across_ranks()) == GOLDEN[example][rank]
        assert part.micro_batch_size == len(range(rank, batch_size, size))
        assert part.num_samples == num_samples - (num_samples % batch_size) * drop_remainder


def test_single_samples_have_no_duplicates() -> None:
    dataset = Data.range(10).batch(8)
    parts = [
        data.Dataset(dataset, 3, rank).distribute_dataset_across_ranks(apply_batch=False)
        for rank in range(3)
    ]
    assert [[int(x) for x in part] for part in parts] == [[0, 3, 6, 8], [1, 4, 7, 9], [2, 5]]


def test_unbatched_dataset_needs_a_micro_batch_size() -> None:
    part = data.Dataset(Data.range(8), num_ranks=2, rank=1)
    with pytest.raises(ValueError, match="not batched"):
        part.distribute_dataset_across_ranks()
    assert batches_of(part.distribute_dataset_across_ranks(2)) == [[1, 3], [5, 7]]
    assert (part.micro_batch_size, part.num_samples) == (2, 8)


def test_micro_batch_size_says_that_elements_with_rows_are_samples() -> None:
    part = data.Dataset(Data.from_tensor_slices(tf.zeros([7, 5])), num_ranks=2, rank=1)
    assert [len(batch) for batch in batches_of(part.distribute_dataset_across_ranks(2))] == [2, 1]
    assert (part.micro_batch_size, part.num_samples) == (2, 7)


def test_samples_are_counted_where_the_number_is_not_known() -> None:
    filtered = Data.range(10).filter(lambda x: x % 3 > 0)
    assert data.Dataset.get_number_samples(filtered) == 6
    assert data.Dataset.get_number_samples(filtered.batch(4)) == 6
    with pytest.raises(ValueError, match="no end"):
        data.Dataset.get_number_samples(filtered.repeat())
    with pytest.raises(ValueError, match="distribute_dataset_across_ranks"):
        _ = data.Dataset(filtered).num_samples


def test_seed_is_given_to_shuffles_without_one() -> None:
    part = data.Dataset(Data.range(9).shuffle(9).batch(3), shuffle_seed=7)
    expected = batches_of(Data.range(9).shuffle(9, seed=7).batch(3))
    assert batches_of(part.distribute_dataset_across_ranks()) == expected
    assert part.get_gradient_scaling_callback() is None


def test_methods_of_steps_share_too() -> None:
    part = data.Dataset(Data.range(9), num_ranks=2, rank=1)
    shuffled = part.shuffle_with_seed(Data.range(9), 9)
    assert batches_of(shuffled.batch(9)) == batches_of(Data.range(9).shuffle(9, seed=42).batch(9))
    assert batches_of(part.distributed_batch(Data.range(9), 4)) == [[1, 3], [5, 7], [8]]


def test_explain_prints_what_tnt_data_says(capsys: pytest.CaptureFixture[str]) -> None:
    dataset = Data.range(9).batch(4)
    data.explain(dataset, 3)
    assert capsys.readouterr().out == tnt_data.explain(dataset, 3) + "\n"
    data.explain(Data.range(9), tnt_micro_batch_size=2)
    assert "batch(2)" in capsys.readouterr().out
