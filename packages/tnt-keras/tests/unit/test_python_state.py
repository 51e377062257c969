"""What a step does to generators and counters of Python is taken back."""

from __future__ import annotations

import random
from typing import Any

import keras
import numpy as np

from tnt_keras.model.python_state import PythonState


def test_generators_of_python_and_numpy_begin_again() -> None:
    state = PythonState()
    drawn = [(random.random(), float(np.random.normal())) for _ in range(2)]
    for _ in range(2):
        state.restore()
        assert [(random.random(), float(np.random.normal())) for _ in range(2)] == drawn


def test_numbers_and_strings_of_a_model_are_put_back_and_what_keras_has_built_is_kept() -> None:
    model: Any = keras.Sequential([keras.layers.Dense(1)])
    model.count, model.phase = 3, "warm-up"
    state = PythonState([model, *model.layers])
    for _ in range(2):
        model.count += 1
        model.phase = "training"
        model.build((None, 2))
        state.restore()
        assert (model.count, model.phase) == (3, "warm-up")
    assert model.built
    assert model.layers[0].built
    assert len(model.weights) == 2


class Counting(keras.layers.Layer):
    """Its class holds the number that its objects count on from."""

    num_calls = 0


def test_a_number_that_the_class_holds_is_seen_again() -> None:
    layer: Any = Counting()
    state = PythonState([layer])
    layer.num_calls += 1
    layer.last = np.float32(0.5)
    assert {name: number for (_, name), number in state.changed_numbers().items()} == {
        "num_calls": 1.0,
        "last": 0.5,
    }
    state.restore()
    assert (layer.num_calls, "num_calls" in vars(layer)) == (0, False)


def test_a_number_that_was_put_back_has_not_changed() -> None:
    layer: Any = keras.layers.Layer()
    layer.rate, layer.is_on = 0.1, False
    state = PythonState([layer])
    layer.rate, layer.is_on = 0.2, True
    assert list(state.changed_numbers().values()) == [0.2]
    state.restore()
    assert state.changed_numbers() == {}
