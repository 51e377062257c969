"""A small classifier with its samples, and one object of it for several runs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

import tnt_keras

NUM_SAMPLES = 21
"""Batches of 5 are not even for 2 or 3 ranks, and the last one has a single sample."""


def samples(num_samples: int = NUM_SAMPLES, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Inputs of shape `(num_samples, 10)` and labels of 3 classes."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(num_samples, 10)).astype("float32")
    return x, rng.integers(0, 3, num_samples).astype("int32")


def weights_of(num_samples: int = NUM_SAMPLES) -> np.ndarray:
    """One weight per sample, very different ones."""
    return np.linspace(0.1, 3.0, num_samples, dtype="float32")


def classifier(distributed: bool, **compile_arguments: Any) -> Any:
    """A compiled classifier of 10 features, as functional model."""
    keras.utils.set_random_seed(11)
    inputs = keras.Input((10,))
    x = keras.layers.Dense(8, activation="tanh")(inputs)
    model = keras.Model(inputs, keras.layers.Dense(3, activation="softmax")(x))
    arguments = {
        "optimizer": keras.optimizers.SGD(0.1, momentum=0.9),
        "loss": "sparse_categorical_crossentropy",
        "metrics": ["accuracy"],
        **compile_arguments,
    }
    return compiled(model, distributed, arguments)


def weighted_classifier(distributed: bool) -> Any:
    """The classifier with a metric that counts sample weights."""
    return classifier(distributed, weighted_metrics=["accuracy"], metrics=None)


def compiled(model: Any, distributed: bool, arguments: dict[str, Any]) -> Any:
    """The model compiled, by Tarantella if it is distributed, with its optimizer built."""
    if distributed:
        model = tnt_keras.Model(model)
    model.compile(**arguments)
    if model.built:
        build_optimizer(model)
    return model


def build_optimizer(model: Any) -> None:
    """Make the variables of the optimizer: a step that does so is traced twice."""
    model.optimizer.build(model.trainable_variables)


def results_of(model: Any, history: Any) -> dict[str, Any]:
    """What a training has left behind."""
    return {"weights": [np.asarray(w) for w in model.get_weights()], "history": history.history}


def restarted(make: Callable[[bool], Any], distributed: bool) -> Any:
    """The model that `make` makes, with its first weights and optimizer state.

    It is one object for all runs of a process, so that TensorFlow traces its steps once for all.
    """
    model, values = _kept(make, distributed)
    keras.utils.set_random_seed(11)
    for variable, value in zip(_state(model), values, strict=True):
        variable.assign(value)
    if isinstance(model, tnt_keras.Model):
        model._tnt_owner.num_fits = 0  # orders are drawn by it
    return model


@functools.cache
def _kept(make: Callable[[bool], Any], distributed: bool) -> tuple[Any, list[np.ndarray]]:
    model = make(distributed)
    return model, [np.array(variable.numpy()) for variable in _state(model)]


def _state(model: Any) -> list[Any]:
    return [*model.variables, *model.optimizer.variables]
