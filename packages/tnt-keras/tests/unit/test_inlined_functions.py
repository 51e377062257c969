"""Functions become part of what calls them, without a word of TensorFlow."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tnt_keras.step.context import inlined_functions


def test_functions_are_inlined_in_a_block_and_traced_after_it() -> None:
    calls: list[bool] = []

    @tf.function
    def note() -> None:
        calls.append(tf.executing_eagerly())

    with inlined_functions():
        note()
    note()
    assert calls == [True, False]


def test_vectorized_maps_are_silent(capfd: pytest.CaptureFixture[str]) -> None:
    with inlined_functions():
        doubled = tf.vectorized_map(lambda x: 2 * x, tf.range(3))
    assert doubled.numpy().tolist() == [0, 2, 4]
    captured = capfd.readouterr()
    assert "run_functions_eagerly" not in captured.err + captured.out
