"""Random functions give rows of a batch the numbers that they gave among all rows."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf
from replayed_draws import GENERATOR, SEED, VECTORS, N, Step, assert_replayed

from tnt_keras.probe.runs.draws import Draws


def rows_of(x: tf.Tensor) -> tuple[int, int]:
    return (int(tf.shape(x)[0]), 6)


POSITIVE = np.abs(VECTORS) + 0.5


def function_cases() -> dict[str, Step]:
    """Random functions in a step, scaled by the row where they take such arguments."""
    r = keras.random
    g = GENERATOR
    t = tf.random
    return {
        "keras normal": lambda x: x + r.normal(rows_of(x)),
        "keras normal scaled": lambda x: x + x * r.normal(rows_of(x)),
        "keras uniform": lambda x: x * r.uniform(rows_of(x), 1.0, 2.0),
        "keras truncated_normal": lambda x: x * r.truncated_normal(rows_of(x)),
        "keras randint": lambda x: x * tf.cast(r.randint(rows_of(x), 1, 9), tf.float32),
        "keras categorical": lambda x: x[:, :1] * tf.cast(r.categorical(x, 4), tf.float32),
        "keras gamma": lambda x: r.gamma(rows_of(x), x),
        "keras gamma of one number": lambda x: x * r.gamma((), 2.0),
        "keras beta": lambda x: r.beta(rows_of(x), x, 2.0),
        "keras binomial": lambda x: x * r.binomial(rows_of(x), 9.0, 0.5),
        "keras dropout": lambda x: r.dropout(x, 0.5),
        "normal": lambda x: t.normal(rows_of(x), x, 2 * x),
        "normal of int64 shape": lambda x: x * t.normal(tf.shape(x, tf.int64)),
        "uniform": lambda x: t.uniform(rows_of(x), x, 3 * x),
        "uniform integers": lambda x: (
            x * tf.cast(t.uniform(rows_of(x), 0, 9, tf.int32), tf.float32)
        ),
        "truncated_normal": lambda x: t.truncated_normal(rows_of(x), x, 2 * x),
        "categorical": lambda x: x[:, :1] * tf.cast(t.categorical(x, 4), tf.float32),
        "gamma": lambda x: tf.reduce_sum(t.gamma([3], x, 2 * x), 0),
        "poisson": lambda x: x * tf.reduce_sum(t.poisson([3], x), 0),
        "stateless_normal": lambda x: t.stateless_normal(rows_of(x), SEED, x, 2 * x),
        "stateless_uniform": lambda x: x * t.stateless_uniform(rows_of(x), SEED),
        "stateless_truncated_normal": lambda x: x * t.stateless_truncated_normal(rows_of(x), SEED),
        "stateless_categorical": lambda x: (
            x[:, :1] * tf.cast(t.stateless_categorical(x, 4, SEED), tf.float32)
        ),
        "stateless_gamma": lambda x: t.stateless_gamma(rows_of(x), SEED, x, 2 * x),
        "stateless_poisson": lambda x: x * t.stateless_poisson(rows_of(x), SEED, x, tf.float32),
        "stateless_binomial": lambda x: (
            x * t.stateless_binomial(rows_of(x), SEED, 9.0, 0.5, tf.float32)
        ),
        "Generator.normal": lambda x: x * g.normal(rows_of(x)),
        "Generator.uniform": lambda x: x * g.uniform(rows_of(x)),
        "Generator.uniform integers": lambda x: (
            x * tf.cast(g.uniform(rows_of(x), 0, 9, tf.int64), tf.float32)
        ),
        "Generator.uniform_full_int": lambda x: (
            x * tf.cast(g.uniform_full_int(rows_of(x)) % 9, tf.float32)
        ),
        "Generator.truncated_normal": lambda x: x * g.truncated_normal(rows_of(x)),
        "Generator.binomial": lambda x: x * g.binomial(rows_of(x), 9.0, 0.5, tf.float32),
        "nn.dropout": lambda x: tf.nn.dropout(x, 0.5),
        "nn.experimental.stateless_dropout": lambda x: tf.nn.experimental.stateless_dropout(
            x, 0.5, SEED
        ),
        "nn.experimental.general_dropout": lambda x: tf.nn.experimental.general_dropout(
            x, 0.5, lambda shape, dtype: t.uniform(shape, dtype=dtype)
        ),
    }


@pytest.mark.parametrize("name", function_cases())
def test_random_functions_replay_and_let_gradients_flow(name: str) -> None:
    assert_replayed(function_cases()[name], POSITIVE)


def test_drawn_numbers_are_of_their_distribution() -> None:
    shape = (N, 4000)
    with Draws().recording(N):
        drawn = {
            "normal": tf.random.normal(shape, 2.0, 3.0),
            "uniform": tf.random.uniform(shape, 2.0, 4.0),
            "gamma": tf.random.gamma(shape, 3.0),
            "poisson": tf.random.poisson(shape, 3.0),
            "binomial": keras.random.binomial(shape, 10.0, 0.3),
            "kept": tf.nn.dropout(tf.ones(shape), 0.3),
            "integers": tf.random.uniform(shape, 0, 3, tf.int32),
        }
    means = {name: float(tf.reduce_mean(tf.cast(x, tf.float32))) for name, x in drawn.items()}
    expected = {"normal": 2, "uniform": 3, "gamma": 3, "poisson": 3, "binomial": 3}
    expected |= {"kept": 1, "integers": 1}
    assert means == pytest.approx(expected, abs=0.1)
    assert len(np.unique(drawn["normal"])) > 0.99 * N * 4000


def test_gradients_are_those_of_the_plain_functions() -> None:
    alpha = tf.constant([0.5, 2.0, 9.0])
    plain = tf.raw_ops.StatelessRandomGammaV2
    with tf.GradientTape() as tape:
        tape.watch(alpha)
        y = plain(shape=(N, 3), seed=(0x7A57, 0), alpha=tf.broadcast_to(alpha, (N, 3)))
        loss = tf.reduce_sum(y)
    expected = tape.gradient(loss, alpha)
    with Draws().recording(N), tf.GradientTape() as tape:
        tape.watch(alpha)
        loss = tf.reduce_sum(tf.random.stateless_gamma((N, 3), SEED, alpha))
    np.testing.assert_array_equal(tape.gradient(loss, alpha), expected)
