"""Draws of each rank's own: other rows than in the serial run, and everything else as there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from step_replicas import assert_equal
from two_processes import run_in_two_processes

from tnt_keras.partition import Input, Replicas, Sharded, build, trace
from tnt_keras.partition.reshard import NoExchange

X = np.random.default_rng(0).normal(size=(7, 3)).astype("float32")
SEED = [3, 5]


def results_of_two(step: Callable[[tf.Tensor], Any]) -> tuple[Any, Any]:
    """What two ranks return, equal on both, and what one rank does."""
    traced = trace(step, [tf.TensorSpec([None, 3])])
    first, second = run_in_two_processes(traced, [X], 1, draws_own_rows=True)
    assert_equal(first, second, rtol=0)
    return first, traced.concrete_function(tf.constant(X))


def test_each_rank_draws_as_many_rows_as_it_has_by_a_key_of_its_own() -> None:
    noise, serial = results_of_two(lambda x: tf.random.stateless_normal(tf.shape(x), SEED) + 0 * x)
    of_first, of_second = noise[::2].numpy(), noise[1::2].numpy()
    np.testing.assert_array_equal(of_first, tf.random.stateless_normal([4, 3], SEED))
    others = (of_first[:3], serial[1::2].numpy(), serial[:3].numpy())
    assert not any(np.isclose(of_second, other).any() for other in others)


def test_what_is_made_of_a_draw_forwards_and_backwards_is_made_of_one_draw() -> None:
    def step(x: tf.Tensor) -> Any:
        keep = tf.random.stateless_uniform(tf.shape(x), SEED, -1.0, 1.0) > 0.2
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.where(keep, x**2 / 0.4, 0.0)
            total = tf.reduce_sum(y**2)
        return y, tape.gradient(total, x)

    (y, gradient), (serial, _) = results_of_two(step)
    assert not np.array_equal(y == 0, serial == 0)
    np.testing.assert_allclose(gradient, 4 * y**2 / X, rtol=1e-5)


def test_draws_in_loops_are_of_each_ranks_own() -> None:
    def step(x: tf.Tensor) -> Any:
        def turn(i: tf.Tensor, x: tf.Tensor) -> Any:
            return i + 1, x + tf.random.stateless_uniform(tf.shape(x), tf.stack([i, 7]))

        return tf.while_loop(lambda i, x: i < 3, turn, (0, 0 * x))[1]

    result, serial = results_of_two(step)
    assert not np.isclose(result[1::2], serial[1::2]).any()


@pytest.mark.parametrize(
    "step",
    [
        lambda x: x * tf.random.stateless_normal([3], SEED),
        lambda x: tf.reduce_sum(x) * tf.random.stateless_normal([7, 3], SEED),
        lambda x: tf.linalg.svd(tf.random.stateless_normal(tf.shape(x), SEED), compute_uv=False),
    ],
    ids=["of weights", "as many as the batch has rows", "read as a whole"],
)
def test_draws_that_are_not_read_as_rows_are_those_of_the_serial_run(step: Any) -> None:
    assert_equal(*results_of_two(step))


def test_a_draw_that_is_also_read_as_a_whole_is_that_of_the_serial_run() -> None:
    def step(x: tf.Tensor) -> Any:
        noise = tf.random.stateless_normal(tf.shape(x), SEED)
        again = tf.random.stateless_normal(tf.shape(x), SEED)
        return x + noise, tf.linalg.svd(again, compute_uv=False)

    assert_equal(*results_of_two(step))


def test_several_replicas_of_a_process_draw_no_rows_of_their_own() -> None:
    traced = trace(lambda x: x, [tf.TensorSpec([None, 3])])
    inputs = [Input((7, 3), Sharded(0))]
    with pytest.raises(ValueError, match="replicas"):
        build(traced, inputs, Replicas(0, 2, 2), 7, NoExchange, draws_own_rows=True)
