"""Run a step on all rows of a batch and on some, with the same random numbers for each row."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from tnt_keras.probe.runs.draws import Draws

N = 5
PARTS = [np.array([0, 2, 4]), np.array([1, 3])]
PERMUTED = np.array([3, 0, 4, 2, 1])
RANDOM = np.random.default_rng(1)
VECTORS = RANDOM.normal(1.0, 1.0, (N, 6)).astype(np.float32)
SERIES = RANDOM.normal(1.0, 1.0, (N, 7, 6)).astype(np.float32)
GENERATOR = tf.random.Generator.from_seed(7)
SEED = (3, 4)

Step = Callable[[tf.Tensor], tf.Tensor]


def outcome(step: Step, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Output for x and the gradient of a weighted sum of it to x, zero where there is none."""
    x = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = step(x)
        loss = tf.reduce_sum(tf.cast(y, tf.float32) ** 2)
    gradient = tape.gradient(loss, x, unconnected_gradients="zero")
    return y.numpy(), gradient.numpy()


def assert_replayed(step: Step, x: np.ndarray, *, exact: bool = True) -> Draws:
    """Record all rows, replay parts and a permutation of them, and compare row by row."""
    draws = Draws()
    with draws.recording(N):
        whole = outcome(step, x)
    for rows in [*PARTS, PERMUTED]:
        with draws.replaying(rows):
            some = outcome(step, x[rows])
        assert draws.unserved == []
        for of_whole, of_some in zip(whole, some, strict=True):
            if exact:
                np.testing.assert_array_equal(of_some, of_whole[rows])
            else:
                scale = np.abs(of_whole).max()
                np.testing.assert_allclose(of_some, of_whole[rows], rtol=0, atol=1e-5 * scale)
    return draws
