"""Batch normalisation of a part sees the moments of the whole."""

from __future__ import annotations

import threading

import keras
import numpy as np
import pytest
import tensorflow as tf

from tnt_keras.probe.runs.batch_moments import BatchMoments

N = 5
X = np.random.default_rng(3).normal(2.0, 3.0, (N, 4, 3)).astype(np.float32)
MASK = np.arange(4)[None] < np.array([4, 1, 3, 2, 4])[:, None]


def call(
    layers: list[keras.layers.Layer], rows: np.ndarray, mask: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The output for these rows, and the gradient of a weighted sum of it to them."""
    x = tf.constant(X[rows])
    given = {} if mask is None else {"mask": tf.constant(mask[rows])}
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x
        for layer in layers:
            y = layer(y, training=True, **given)
        loss = tf.reduce_sum(tf.cast(y, tf.float32) ** 3)
    return y.numpy(), tape.gradient(loss, x).numpy()


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16", "mixed_float16"])
@pytest.mark.parametrize("mask", [None, MASK], ids=["unmasked", "masked"])
@pytest.mark.parametrize("part", [slice(0, None, 2), slice(1, None, 2)])
def test_rows_get_what_they_get_among_all_rows(
    dtype: str, mask: np.ndarray | None, part: slice
) -> None:
    layers = [keras.layers.BatchNormalization(dtype=dtype) for _ in range(2)]
    rows = np.arange(N)
    moments = BatchMoments()
    with moments.recording():
        whole = call(layers, rows, mask)
    with moments.replaying():
        some = call(layers, rows[part], mask)
    plain = call(layers, rows[part], mask)
    for of_whole, of_some, of_plain in zip(whole, some, plain, strict=True):
        np.testing.assert_array_equal(of_some, of_whole[part])
        assert np.abs(of_plain.astype(np.float32) - of_some.astype(np.float32)).max() > 0.01


def test_output_and_moving_statistics_while_recording_are_the_plain_ones() -> None:
    plain, recorded = (keras.layers.BatchNormalization() for _ in range(2))
    expected = call([plain], np.arange(N))[0]
    with BatchMoments().recording():
        output = call([recorded], np.arange(N))[0]
    np.testing.assert_array_equal(output, expected)
    for a, b in zip(plain.weights, recorded.weights, strict=True):
        np.testing.assert_array_equal(a, b)


def test_moving_statistics_of_a_part_move_as_those_of_the_whole() -> None:
    whole, part = (keras.layers.BatchNormalization() for _ in range(2))
    moments = BatchMoments()
    with moments.recording():
        call([whole], np.arange(N))
    with moments.replaying():
        call([part], np.array([1, 3]))
    for a, b in zip(whole.weights, part.weights, strict=True):
        np.testing.assert_array_equal(a, b)


def test_inference_takes_no_moments_and_a_new_recording_begins_anew() -> None:
    layer = keras.layers.BatchNormalization()
    moments = BatchMoments()
    with moments.recording():
        call([layer], np.arange(N))
    with moments.recording():
        layer(X, training=False)
    with moments.replaying(), pytest.raises(RuntimeError, match="called 0 times for all rows"):
        call([layer], np.arange(N))


def test_traced_functions_and_other_threads_are_left_alone() -> None:
    layer = keras.layers.BatchNormalization()
    layer.build(X.shape)
    moments = BatchMoments()
    with moments.recording():
        tf.function(lambda x: layer(x, training=True))(X)
        other = threading.Thread(target=lambda: layer(X, training=True))
        other.start()
        other.join()
    with moments.replaying(), pytest.raises(RuntimeError, match="called 0 times"):
        layer(X, training=True)
