"""What a step does to generators and counters of Python is taken back."""

from __future__ import annotations

import random
from typing import Any

import keras
import numpy as np

from tnt_keras.probe.python_state import PythonState


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
