"""Ranks draw other numbers for their samples, and the same for everything else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tnt_keras.step.rank_draws import rank_draws, static_num_rows

ROWS = 4
KEY = [3, 5]

DRAWS: dict[str, Callable[[Any], Any]] = {
    "keras normal": lambda shape: keras.random.normal(shape, seed=7),
    "keras uniform": lambda shape: keras.random.uniform(shape, seed=7),
    "keras truncated normal": lambda shape: keras.random.truncated_normal(shape, seed=7),
    "keras randint": lambda shape: keras.random.randint(shape, 0, 1000, seed=7),
    "keras dropout": lambda shape: keras.random.dropout(tf.ones(shape), 0.5, seed=7),
    "keras gamma": lambda shape: keras.random.gamma(shape, 2.0, seed=7),
    "normal": lambda shape: tf.random.normal(shape, seed=7),
    "uniform": lambda shape: tf.random.uniform(shape, seed=7),
    "integers": lambda shape: tf.random.uniform(shape, 0, 1000, tf.int32, seed=7),
    "stateless normal": lambda shape: tf.random.stateless_normal(shape, KEY),
    "stateless poisson": lambda shape: tf.random.stateless_poisson(shape, KEY, 50.0),
    "stateless binomial": lambda shape: tf.random.stateless_binomial(shape, KEY, 100.0, 0.5),
    "generator": lambda shape: tf.random.Generator.from_seed(3).normal(shape),
    "categorical": lambda shape: tf.random.categorical(tf.zeros([shape[0], 1000]), 9, seed=7),
}


def drawn(rank: int, draw: Callable[[Any], Any], shape: Any, num_rows: int | None = ROWS) -> Any:
    """What a rank draws, with the global seed that all ranks have set."""
    tf.random.set_seed(1)
    with rank_draws(rank, num_rows):
        return np.asarray(draw(shape))


@pytest.mark.parametrize("kind", DRAWS)
def test_each_rank_draws_its_own_numbers_for_its_samples(kind: str) -> None:
    of_ranks = [drawn(rank, DRAWS[kind], (ROWS, 64)) for rank in range(3)]
    for rank in range(3):
        np.testing.assert_array_equal(of_ranks[rank], drawn(rank, DRAWS[kind], (ROWS, 64)))
        assert not np.array_equal(of_ranks[rank], of_ranks[(rank + 1) % 3])


@pytest.mark.parametrize("kind", DRAWS)
def test_all_ranks_draw_the_same_for_the_step(kind: str) -> None:
    expected = drawn(0, DRAWS[kind], (7, 64))
    for rank in (1, 2):
        np.testing.assert_array_equal(drawn(rank, DRAWS[kind], (7, 64)), expected)


def test_rank_0_draws_what_is_drawn_elsewhere() -> None:
    tf.random.set_seed(1)
    expected = DRAWS["normal"]((ROWS, 64))
    np.testing.assert_array_equal(drawn(0, DRAWS["normal"], (ROWS, 64)), expected)


@pytest.mark.parametrize(
    ("size", "num_rows", "differ"),
    [(4, 4, True), (8, 4, True), (6, 4, False), (2, 4, False), (8, 1, False), (1, 1, True)],
)
def test_numbers_are_for_samples_if_there_are_some_for_each(
    size: int, num_rows: int, differ: bool
) -> None:
    first, second = (drawn(rank, DRAWS["keras normal"], (size, 5), num_rows) for rank in (0, 1))
    assert np.array_equal(first, second) is not differ


def test_numbers_of_a_shape_that_is_not_known_in_the_graph_are_for_samples() -> None:
    def step(rank: int) -> Any:
        @tf.function(input_signature=[tf.TensorSpec([None, 3])])
        def traced(rows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            assert static_num_rows((None, {"x": rows})) is None
            with rank_draws(rank, None):
                of_samples = keras.random.normal(tf.shape(rows), seed=7)
                return of_samples, keras.random.normal((3, 3), seed=7)

        return [np.asarray(part) for part in traced(tf.zeros([3, 3]))]

    (of_samples, once), (other_samples, same) = step(0), step(1)
    assert not np.array_equal(of_samples, other_samples)
    np.testing.assert_array_equal(once, same)


def test_states_of_seeds_stay_equal() -> None:
    seeds = []
    for rank in (0, 1):
        seed = keras.random.SeedGenerator(7)
        with rank_draws(rank, ROWS):
            keras.random.normal((ROWS, 2), seed=seed)
        seeds.append(np.asarray(seed.state))
    np.testing.assert_array_equal(*seeds)


def test_rows_are_counted_where_they_are_known() -> None:
    assert static_num_rows((tf.constant(1.0), [None, tf.zeros([5, 2])])) == 5
    assert static_num_rows(()) is None
