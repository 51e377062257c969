"""Recorded numbers depend on no seed, and no generator advances."""

from __future__ import annotations

import random
import threading

import keras
import numpy as np
import tensorflow as tf
from replayed_draws import GENERATOR, PARTS, SEED, N

from tnt_keras.probe.runs.draws import Draws

ALL = np.arange(N)


def test_every_recording_draws_the_same_whatever_the_seeds() -> None:
    drawn: list[list[tf.Tensor]] = []
    for seed in (1, 2):
        keras.utils.set_random_seed(seed)
        with Draws().recording(N):
            drawn.append(
                [keras.random.normal((N,)), tf.random.uniform((N,)), GENERATOR.normal((3,))]
            )
    np.testing.assert_array_equal(*[np.concatenate(d) for d in drawn])


def test_generators_of_python_and_numpy_draw_the_same_in_each_run_and_do_not_advance() -> None:
    def drawn() -> list[float]:
        return [random.random(), float(np.random.normal())]

    draws, runs = Draws(), []
    random.seed(1)
    np.random.seed(1)
    expected = drawn()
    random.seed(1)
    np.random.seed(1)
    for around in (draws.recording(N), draws.replaying(ALL), Draws().recording(3)):
        with around:
            runs.append(drawn())
    assert runs[0] == runs[1] == runs[2]
    assert drawn() == expected


def test_generators_that_draw_by_the_number_of_rows_are_noted() -> None:
    def step(num_rows: int) -> None:
        np.random.normal(size=num_rows)
        random.random()  # one for the batch

    draws = Draws()
    with draws.recording(N):
        step(N)
    with draws.replaying(ALL):
        step(N)
    assert draws.python_generators == set()
    with draws.replaying(ALL[:2]):
        step(2)
    with draws.replaying(ALL):
        step(N)
    assert draws.python_generators == {"numpy.random"}


def test_a_seed_that_is_drawn_once_is_not_drawn_for_samples() -> None:
    draws = Draws()
    with draws.recording(N):
        random.random()
    with draws.replaying(ALL[:2]):
        pass
    assert draws.python_generators == set()


def test_no_generator_of_tensorflow_advances() -> None:
    state = GENERATOR.state.numpy().tolist()
    tf.random.set_seed(3)
    expected = [float(tf.random.normal(())) for _ in range(2)]
    tf.random.set_seed(3)
    with Draws().recording(N):
        tf.random.normal((N,))
        tf.random.shuffle(tf.range(N))
        GENERATOR.normal((N,))
    assert [float(tf.random.normal(())) for _ in range(2)] == expected
    assert GENERATOR.state.numpy().tolist() == state


def test_what_was_not_recorded_is_named_and_the_same_on_each_rank() -> None:
    draws = Draws()
    with draws.recording(N):
        tf.random.normal((N, 2))
        tf.random.normal((N, 3))
        tf.random.normal((N,))
    values = []
    for _ in range(2):
        with draws.replaying(PARTS[0]):
            values.append(tf.random.normal((3, 4)).numpy())
            tf.random.uniform((3, 3))
        assert draws.unserved == [
            "normal float32 (3, 4)",
            "uniform float32 (3, 3)",
            "normal float32 (5,)",
        ]
    np.testing.assert_array_equal(*values)
    with draws.replaying(PARTS[0]):
        tf.random.normal((3, 2))
        tf.random.normal((3, 3))
        tf.random.normal((3,))
        tf.random.normal((3,))
    assert draws.unserved == ["normal float32 (3,)"]


def test_a_shuffle_permutes_the_rows_that_are_there() -> None:
    draws = Draws()
    with draws.recording(N):
        whole = tf.random.shuffle(tf.range(N)).numpy()
    assert sorted(whole) == list(range(N))
    for rows in PARTS:
        with draws.replaying(rows):
            some = tf.random.shuffle(tf.constant(rows)).numpy()
        assert sorted(some) == sorted(rows)


def test_traced_functions_and_other_threads_are_left_alone() -> None:
    drawn = []
    traced = tf.function(lambda: tf.random.stateless_normal((N,), SEED))
    plain = tf.random.stateless_normal((N,), SEED).numpy()
    draws = Draws()
    with draws.recording(N):
        drawn.append(traced())
        other = threading.Thread(
            target=lambda: drawn.append(tf.random.stateless_normal((N,), SEED))
        )
        other.start()
        other.join()
        drawn.append(tf.random.stateless_normal((N,), SEED))
    np.testing.assert_array_equal(drawn[0], plain)
    np.testing.assert_array_equal(drawn[1], plain)
    assert np.all(drawn[2] != plain)
    with draws.replaying(ALL):
        tf.random.stateless_normal((N,), SEED)
    assert draws.unserved == []
