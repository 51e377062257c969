"""Which of the recorded numbers belong to which rows is found from the shapes."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from replayed_draws import PARTS, RANDOM, SERIES, VECTORS, N, assert_replayed

from tnt_keras.probe.runs.draws import Draws


def test_shared_draws_are_the_very_draws() -> None:
    assert_replayed(lambda x: x * tf.random.normal((6,)) + tf.random.uniform(()), VECTORS)


def test_rows_along_another_axis_are_found() -> None:
    def step(x: tf.Tensor) -> tf.Tensor:
        return tf.transpose(tf.nn.dropout(tf.transpose(x, (1, 0, 2)), 0.5), (1, 0, 2))

    assert_replayed(step, SERIES)


def test_views_and_steps_of_time_replay_in_any_order() -> None:
    def step(x: tf.Tensor) -> tf.Tensor:
        views = tf.nn.dropout(tf.concat([x, 2 * x], 0), 0.5)
        one, two = tf.split(views, 2)
        steps = tf.nn.dropout(tf.reshape(x, (-1, 2)), 0.5)
        return one + two + tf.reshape(steps, tf.shape(x))

    assert_replayed(step, VECTORS)


def test_entries_that_are_not_a_multiple_of_rows_replay() -> None:
    lengths = np.array([3, 1, 4, 2, 5])

    def step(x: tf.Tensor, lengths: np.ndarray) -> np.ndarray:
        tokens = tf.repeat(x, lengths, axis=0)
        owner = np.repeat(np.arange(len(lengths)), lengths)
        return tf.math.segment_sum(tf.nn.dropout(tokens, 0.5), owner).numpy()

    draws = Draws()
    with draws.recording(N):
        whole = step(VECTORS, lengths)
    for rows in PARTS:
        with draws.replaying(rows):
            np.testing.assert_array_equal(step(VECTORS[rows], lengths[rows]), whole[rows])
        assert draws.unserved == []


def test_a_shared_draw_with_as_many_rows_as_the_batch_is_known_after_a_part() -> None:
    weights = tf.constant(RANDOM.normal(size=(N, 6)).astype(np.float32))

    def step(x: tf.Tensor) -> tf.Tensor:
        return x * tf.reduce_sum(tf.nn.dropout(weights, 0.5) * np.arange(N)[:, None], 0)

    assert_replayed(step, VECTORS)


def test_sampled_classes_and_their_expected_counts_replay() -> None:
    labels = np.array([[3], [0], [7], [1], [40]])

    def step(x: tf.Tensor) -> tf.Tensor:
        rows = [int(np.flatnonzero(np.equal(VECTORS, row).all(1))[0]) for row in x.numpy()]
        return tf.nn.sampled_softmax_loss(
            tf.reshape(tf.range(600.0), (100, 6)) / 600, tf.zeros(100), labels[rows], x, 9, 100
        )

    assert_replayed(step, VECTORS, exact=False)
