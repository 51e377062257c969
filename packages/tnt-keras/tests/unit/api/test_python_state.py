"""What a step does to generators and counters of Python is taken back."""

from __future__ import annotations

import random
from typing import Any

import keras
import numpy as np
import pytest

from tnt_keras.api.first_step import kept_in_python


def _drawn() -> list[tuple[float, float]]:
    return [(random.random(), float(np.random.normal())) for _ in range(2)]


def test_generators_of_python_and_numpy_begin_again() -> None:
    with kept_in_python():
        drawn = _drawn()
    with kept_in_python():
        assert _drawn() == drawn
    assert _drawn() == drawn


def test_numbers_and_strings_of_a_model_are_put_back_and_what_keras_has_built_is_kept() -> None:
    model: Any = keras.Sequential([keras.layers.Dense(1)])
    model.count, model.phase = 3, "warm-up"
    with kept_in_python([model, *model.layers]):
        model.count += 1
        model.phase = "training"
        model.build((None, 2))
    assert (model.count, model.phase) == (3, "warm-up")
    assert model.built
    assert model.layers[0].built
    assert len(model.weights) == 2


class Counting(keras.layers.Layer):
    """Its class holds the number that its objects count on from."""

    num_calls = 0


def test_a_number_that_the_class_holds_is_seen_again() -> None:
    layer: Any = Counting()
    with kept_in_python([layer]):
        layer.num_calls += 1
        layer.last = np.float32(0.5)
    assert (layer.num_calls, "num_calls" in vars(layer)) == (0, False)
    assert layer.last == 0.5


def _fail(layer: Any) -> None:
    with kept_in_python([layer]):
        layer.rate = 0.2
        raise KeyError


def test_what_an_error_ends_is_put_back_too() -> None:
    layer: Any = keras.layers.Layer()
    layer.rate = 0.1
    with pytest.raises(KeyError):
        _fail(layer)
    assert layer.rate == 0.1
