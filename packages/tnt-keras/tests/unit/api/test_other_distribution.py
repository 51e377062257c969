"""A model is distributed by Tarantella alone, on TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tnt_keras

X, Y = np.zeros((4, 2), "float32"), np.zeros((4, 1), "float32")


def test_an_active_strategy_is_refused() -> None:
    with (
        tf.distribute.MirroredStrategy(["cpu:0"]).scope(),
        pytest.raises(RuntimeError, match=r"remove the strategy and its scope"),
    ):
        tnt_keras.Model(keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]))


def test_a_model_made_under_a_strategy_is_refused() -> None:
    with tf.distribute.MirroredStrategy(["cpu:0"]).scope():
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    with pytest.raises(RuntimeError, match=r"is under a `tf.distribute.Strategy`"):
        tnt_keras.Model(model)


def test_a_model_of_keras_2_is_named_as_such() -> None:
    of_keras_2 = type("Functional", (), {"__module__": "tf_keras.src.engine.functional"})
    message = r"Received: MyModel of tf_keras.*unset TF_USE_LEGACY_KERAS"
    with pytest.raises(TypeError, match=message):
        tnt_keras.Model(type("MyModel", (of_keras_2,), {})())
    with pytest.raises(TypeError, match=r"Received: Dense\.$"):
        tnt_keras.Model(keras.layers.Dense(1))


CALLS: dict[str, Callable[[Any], Any]] = {
    "compile": lambda model: model.compile("sgd", "mse"),
    "fit": lambda model: model.fit(X, Y, verbose=0),
    "evaluate": lambda model: model.evaluate(X, Y, verbose=0),
    "predict": lambda model: model.predict(X, verbose=0),
    "train_on_batch": lambda model: model.train_on_batch(X, Y),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_in_the_scope_of_a_strategy_is_refused(name: str) -> None:
    model = tnt_keras.Model(keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]))
    model.compile("sgd", "mse")
    text = rf"^`{name}` is called in the scope of a `tf.distribute.Strategy`.*remove the strategy"
    strategy = tf.distribute.MirroredStrategy(["cpu:0"])
    with strategy.scope(), pytest.raises(RuntimeError, match=text):
        CALLS[name](model)
    model.fit(X, Y, verbose=0)


def test_a_step_function_in_the_scope_of_a_strategy_is_refused() -> None:
    step = tnt_keras.function(lambda x: x)
    strategy = tf.distribute.MirroredStrategy(["cpu:0"])
    with strategy.scope(), pytest.raises(RuntimeError, match="remove the strategy and its scope"):
        step(tf.zeros(2))


def test_another_backend_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    monkeypatch.setattr(keras.config, "backend", lambda: "jax")
    with pytest.raises(RuntimeError, match=r"Keras computes with jax.*KERAS_BACKEND=tensorflow"):
        tnt_keras.Model(model)
