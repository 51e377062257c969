"""Layers draw for rows of a batch the random numbers that they drew among all rows."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from replayed_draws import RANDOM, SERIES, VECTORS, N, Step, assert_replayed

from tnt_keras.probe.runs.draws import Draws

LAYER = keras.layers
SHORT = SERIES[:, :3]
IMAGES = RANDOM.uniform(0.0, 255.0, (N, 8, 9, 3)).astype(np.float32)
VOLUMES = RANDOM.normal(1.0, 1.0, (N, 3, 4, 5, 2)).astype(np.float32)


def layer_cases() -> dict[str, tuple[Callable[[], Any], np.ndarray]]:
    return {
        "Dropout": (lambda: LAYER.Dropout(0.4), VECTORS),
        "Dropout, one mask for all": (lambda: LAYER.Dropout(0.4, noise_shape=(1, 6)), VECTORS),
        "Dropout along time": (lambda: LAYER.Dropout(0.4, noise_shape=(None, 1, 6)), SERIES),
        "Dropout bfloat16": (lambda: LAYER.Dropout(0.4, dtype="mixed_bfloat16"), VECTORS),
        "Dropout float16": (lambda: LAYER.Dropout(0.4, dtype="mixed_float16"), VECTORS),
        "SpatialDropout1D": (lambda: LAYER.SpatialDropout1D(0.4), SERIES),
        "SpatialDropout2D": (lambda: LAYER.SpatialDropout2D(0.4), IMAGES),
        "SpatialDropout3D": (lambda: LAYER.SpatialDropout3D(0.4), VOLUMES),
        "GaussianNoise": (lambda: LAYER.GaussianNoise(0.3), VECTORS),
        "GaussianDropout": (lambda: LAYER.GaussianDropout(0.3), VECTORS),
        "AlphaDropout": (lambda: LAYER.AlphaDropout(0.3), VECTORS),
        "RandomFlip": (lambda: LAYER.RandomFlip(), IMAGES),
        "RandomRotation": (lambda: LAYER.RandomRotation(0.3), IMAGES),
        "RandomTranslation": (lambda: LAYER.RandomTranslation(0.3, 0.2), IMAGES),
        "RandomZoom": (lambda: LAYER.RandomZoom(0.3), IMAGES),
        "RandomCrop": (lambda: LAYER.RandomCrop(4, 5), IMAGES),
        "RandomContrast": (lambda: LAYER.RandomContrast(0.5), IMAGES),
        "RandomBrightness": (lambda: LAYER.RandomBrightness(0.3), IMAGES),
    }


@pytest.mark.parametrize("name", layer_cases())
def test_random_layers_replay_outputs_and_gradients_bit_for_bit(name: str) -> None:
    make, x = layer_cases()[name]
    layer = make()
    assert_replayed(lambda x: layer(x, training=True), x)


def inexact_layer_cases() -> dict[str, tuple[Step, np.ndarray]]:
    attention = LAYER.MultiHeadAttention(2, 4, dropout=0.4)
    grouped = LAYER.GroupQueryAttention(4, 2, 1, dropout=0.4)
    rnn = {
        cls.__name__: cls(3, dropout=0.3, recurrent_dropout=0.3, return_sequences=True)
        for cls in (LAYER.LSTM, LAYER.GRU, LAYER.SimpleRNN)
    }
    both = LAYER.Bidirectional(LAYER.LSTM(3, recurrent_dropout=0.3))
    each_time = LAYER.TimeDistributed(LAYER.Dropout(0.4))
    return {
        "MultiHeadAttention": (lambda x: attention(x, x, training=True), SERIES),
        "GroupedQueryAttention": (lambda x: grouped(x, x, training=True), SERIES),
        **{
            name: (lambda x, cell=cell: cell(x, training=True), SHORT) for name, cell in rnn.items()
        },
        "Bidirectional": (lambda x: both(x, training=True), SHORT),
        "TimeDistributed": (lambda x: each_time(x, training=True), SERIES),
    }


def long_tail(name: str) -> Any:
    return pytest.param(name, marks=pytest.mark.thorough)


@pytest.mark.parametrize(
    "name",
    [
        "MultiHeadAttention",
        "LSTM",
        "TimeDistributed",
        *map(long_tail, ["GroupedQueryAttention", "GRU", "SimpleRNN", "Bidirectional"]),
    ],
)
def test_random_layers_with_products_of_matrices_replay_to_rounding(name: str) -> None:
    step, x = inexact_layer_cases()[name]
    assert_replayed(step, x, exact=False)


def test_what_is_built_in_the_step_begins_as_it_would_without() -> None:
    def build_and_call(around: contextlib.AbstractContextManager[None]) -> list[np.ndarray]:
        keras.utils.set_random_seed(5)
        inner = keras.Sequential([LAYER.LSTM(3), LAYER.Dense(2)])
        with around:
            inner(SERIES)
        return [np.asarray(w) for w in inner.weights]

    expected = build_and_call(contextlib.nullcontext())
    for weight, of_plain in zip(build_and_call(Draws().recording(N)), expected, strict=True):
        np.testing.assert_array_equal(weight, of_plain)
