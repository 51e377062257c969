"""What decides the order of a dataset can be compared between ranks without reading it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import tensorflow as tf

import tnt_data

Data = tf.data.Dataset
Make = Callable[[int], tf.data.Dataset]
NUMBERS = Data.range(12)


def test_transformations_that_decide_the_order_are_named_with_their_seeds() -> None:
    dataset = NUMBERS.map(abs).shuffle(9, seed=3).cache().repeat(2).batch(4).prefetch(2)
    assert tnt_data.describe_order(dataset) == "shuffle(9) with seed 3, repeat(2), batch(4)"
    assert tnt_data.describe_order(NUMBERS.shuffle(9)) == "shuffle(9)"
    assert tnt_data.describe_order(NUMBERS) == ""


BY_RANK: dict[str, Make] = {
    "seed": lambda rank: NUMBERS.shuffle(12, seed=rank).batch(4),
    "part": lambda rank: NUMBERS.shard(2, rank).batch(4),
    "other part": lambda rank: NUMBERS.skip(rank).take(10).batch(4),
    "branch": lambda rank: Data.zip((NUMBERS, NUMBERS.shuffle(4, seed=rank))).batch(4),
}


@pytest.mark.parametrize("case", BY_RANK)
def test_what_depends_on_the_rank_is_told_apart(case: str) -> None:
    first, second = (tnt_data.describe_order(BY_RANK[case](rank)) for rank in (0, 1))
    assert first != second
    assert first == tnt_data.describe_order(BY_RANK[case](0))


def test_what_does_not_change_the_order_may_differ() -> None:
    one = NUMBERS.cache("a").batch(4).prefetch(1)
    other = NUMBERS.cache("b").batch(4).prefetch(8).with_options(tf.data.Options())
    assert tnt_data.describe_order(one) == tnt_data.describe_order(other)


def test_nothing_is_read_ahead_without_prefetch() -> None:
    drawn: list[int] = []

    def numbers() -> Iterator[int]:
        for number in range(9):
            drawn.append(number)
            yield number

    dataset = Data.from_generator(numbers, output_signature=tf.TensorSpec([], tf.int64))
    on_demand = tnt_data.without_prefetch(dataset.prefetch(4).prefetch(tf.data.AUTOTUNE))
    steps = iter(on_demand.map(lambda x: x + 1))
    assert [int(next(steps)), int(next(steps))] == [1, 2]
    assert drawn == [0, 1]


def test_a_dataset_is_read_without_tuning_unless_it_says_how_to_tune() -> None:
    fixed = tnt_data.without_autotuning(NUMBERS.prefetch(tf.data.AUTOTUNE))
    assert fixed.options().autotune.enabled is False
    assert list(fixed.as_numpy_iterator()) == list(NUMBERS.as_numpy_iterator())
    options = tf.data.Options()
    options.autotune.enabled = True
    tuned = NUMBERS.with_options(options)
    assert tnt_data.without_autotuning(tuned) is tuned
