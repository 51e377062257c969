"""A pass over a dataset is the same if earlier ones were begun only, where that is said of it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from random_pipelines import random_pipeline

from tnt_data import Pipeline

Data = tf.data.Dataset
NUM_PASSES = 3


def _double(x: tf.Tensor) -> tf.Tensor:
    return 2 * x


def _noisy(x: tf.Tensor) -> tf.Tensor:
    return tf.cast(x, tf.float32) + tf.random.uniform([], seed=3)


def _numpy(x: tf.Tensor) -> Any:
    return tf.numpy_function(lambda y: y + 1, [x], tf.int64)


def _sum(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return x + y


INDEPENDENT: dict[str, Callable[[], tf.data.Dataset]] = {
    "unshuffled": lambda: Data.range(20).map(_double).repeat(2).batch(6),
    "shuffled": lambda: Data.range(20).shuffle(9).map(_double).batch(6).prefetch(2),
    "shuffled batches": lambda: Data.range(20).batch(6).shuffle(9, seed=1),
    "cached": lambda: Data.range(20).cache().shuffle(20).batch(6),
    "parallel map with seeded noise": lambda: Data.range(20).shuffle(9).map(_noisy).batch(6),
    "numbered": lambda: Data.zip(Data.range(20), Data.range(20).shuffle(9)).map(_sum).batch(6),
    "always the same order": lambda: (
        Data.range(20).shuffle(9, reshuffle_each_iteration=False).repeat(2).batch(6)
    ),
}
DEPENDENT: dict[str, Callable[[], tf.data.Dataset]] = {
    "repeated shuffle": lambda: Data.range(20).shuffle(9).repeat(2).batch(6),
    "zipped shuffles": lambda: Data.zip(Data.range(9).shuffle(9), Data.range(9).shuffle(9)).batch(
        6
    ),
    "two shuffles": lambda: Data.range(20).shuffle(9).batch(6).shuffle(2),
    "cached order": lambda: Data.range(20).shuffle(9).cache().batch(6),
    "concatenated": lambda: (
        Data.range(9).shuffle(9).concatenate(Data.range(20).shuffle(9)).batch(6)
    ),
    "code of Python": lambda: Data.range(20).map(_numpy).batch(6),
}


def _last_pass(make: Callable[[], tf.data.Dataset], rank: int, *, reads: bool) -> list[Any]:
    dataset = Pipeline(make()).distribute(rank, 2)
    for _ in range(NUM_PASSES - 1):
        iterator = iter(dataset)
        if reads:
            list(iterator)
    return [tf.nest.map_structure(np.asarray, element) for element in dataset]


def _assert_passes_are_independent(make: Callable[[], tf.data.Dataset]) -> None:
    for rank in range(2):
        begun, read = (_last_pass(make, rank, reads=reads) for reads in (False, True))
        assert repr(begun) == repr(read)


@pytest.mark.parametrize("case", INDEPENDENT)
def test_passes_that_are_independent_need_not_be_read(case: str) -> None:
    make = INDEPENDENT[case]
    assert Pipeline(make()).passes_are_independent
    _assert_passes_are_independent(make)


@pytest.mark.parametrize("case", DEPENDENT)
def test_passes_that_may_depend_on_earlier_ones_are_told(case: str) -> None:
    assert not Pipeline(DEPENDENT[case]()).passes_are_independent


UNSEEDED = Data.range(20).shuffle(9).batch(6)
DRAWN = Data.range(20).map(lambda x: tf.random.uniform([]) + tf.cast(x, tf.float32)).batch(6)


def test_what_another_process_reads_otherwise_is_told() -> None:
    assert Pipeline(UNSEEDED).find_irreproducible(seeded=True) == []
    assert Pipeline(UNSEEDED).find_irreproducible(seeded=False) == [
        "shuffle(9) shuffles without a seed"
    ]
    [sentence] = Pipeline(DRAWN).find_irreproducible(seeded=True)
    assert "draws random numbers without a seed" in sentence
    for make in INDEPENDENT.values():
        assert Pipeline(make()).find_irreproducible(seeded=True) == []


@pytest.mark.thorough
@given(st.randoms(use_true_random=False))
def test_random_pipelines_are_independent_where_it_is_said(random: Random) -> None:
    _, build = random_pipeline(random)
    if Pipeline(build(None)).passes_are_independent:
        _assert_passes_are_independent(lambda: build(None))
