"""A model is distributed by Tarantella alone, on TensorFlow."""

from __future__ import annotations

import keras
import pytest
import tensorflow as tf

import tnt_keras


def test_an_active_strategy_is_refused() -> None:
    with (
        tf.distribute.MirroredStrategy(["cpu:0"]).scope(),
        pytest.raises(RuntimeError, match=r"leave the strategy and its scope out"),
    ):
        tnt_keras.Model(keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]))


def test_a_model_made_under_a_strategy_is_refused() -> None:
    with tf.distribute.MirroredStrategy(["cpu:0"]).scope():
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    with pytest.raises(RuntimeError, match=r"is under a `tf.distribute.Strategy`"):
        tnt_keras.Model(model)


def test_another_backend_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    monkeypatch.setattr(keras.config, "backend", lambda: "jax")
    with pytest.raises(RuntimeError, match=r"Keras computes with jax.*KERAS_BACKEND=tensorflow"):
        tnt_keras.Model(model)
