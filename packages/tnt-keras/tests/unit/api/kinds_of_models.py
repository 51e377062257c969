"""Kinds of models, each made plain or with all its models distributed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

NUM_FEATURES = 4
Wrap = Callable[[Any], Any]


@keras.saving.register_keras_serializable("mine")
class Subclassed(keras.Model):
    """Registered, with arguments that Keras notes by itself."""

    def __init__(self, units: int = 3, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = units
        self.dense = keras.layers.Dense(units)

    def build(self, input_shape: Any) -> None:
        self.dense.build(input_shape)

    def call(self, inputs: Any) -> Any:
        return self.dense(inputs)


@keras.saving.register_keras_serializable("mine", name="Renamed")
class FunctionalSubclass(keras.Model):
    """Registered under another name, and made of inputs and outputs."""


@keras.saving.register_keras_serializable("mine")
class WithSubmodels(keras.Model):
    """Registered, with models as attributes and in a list, and a configuration of its own."""

    def __init__(self, first: Any, others: list[Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.first = first
        self.others = others

    def call(self, inputs: Any) -> Any:
        outputs = self.first(inputs)
        for other in self.others:
            outputs = other(outputs)
        return outputs

    def build(self, input_shape: Any) -> None:
        self.built = True

    def get_config(self) -> dict[str, Any]:
        submodels = {"first": self.first, "others": self.others}
        return {**super().get_config(), **keras.saving.serialize_keras_object(submodels)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        names = ("first", "others")
        submodels = {n: keras.saving.deserialize_keras_object(config[n]) for n in names}
        return cls(**{**config, **submodels})


class Unregistered(Subclassed):
    """Known to whoever loads it by `custom_objects` alone."""


CUSTOM_OBJECTS = {"Unregistered": Unregistered}


def _functional(wrap: Wrap, units: int = 3) -> Any:
    inputs = keras.Input((NUM_FEATURES,))
    hidden = keras.layers.Dense(5, activation="relu")(inputs)
    return wrap(keras.Model(inputs, keras.layers.Dense(units)(hidden)))


def _two_outputs(wrap: Wrap) -> Any:
    inputs = keras.Input((NUM_FEATURES,))
    hidden = keras.layers.Dense(5)(inputs)
    outputs = {"a": keras.layers.Dense(3)(hidden), "b": keras.layers.Dense(3)(hidden)}
    return wrap(keras.Model(inputs, outputs))


def _sequential(wrap: Wrap) -> Any:
    return wrap(keras.Sequential([keras.Input((NUM_FEATURES,)), keras.layers.Dense(3)]))


def _nested(wrap: Wrap) -> Any:
    inner = _functional(wrap)
    inner.compile("sgd", keras.losses.MeanAbsoluteError())
    inputs = keras.Input((NUM_FEATURES,))
    return wrap(keras.Model(inputs, keras.layers.Dense(3)(inner(inputs))))


def _plain_around_distributed(wrap: Wrap) -> Any:
    inputs = keras.Input((NUM_FEATURES,))
    return keras.Model(inputs, keras.layers.Dense(3)(_functional(wrap)(inputs)))


def _sequential_of_models(wrap: Wrap) -> Any:
    layers = [keras.Input((NUM_FEATURES,)), _sequential(wrap), wrap(Subclassed(3))]
    return wrap(keras.Sequential(layers))


def _subclassed(wrap: Wrap) -> Any:
    return _built(wrap(Subclassed(3)))


def _unregistered(wrap: Wrap) -> Any:
    return _built(wrap(Unregistered(3)))


def _functional_subclass(wrap: Wrap) -> Any:
    inputs = keras.Input((NUM_FEATURES,))
    return wrap(FunctionalSubclass(inputs, keras.layers.Dense(3)(inputs)))


def _with_submodels(wrap: Wrap) -> Any:
    first = _functional(wrap, units=NUM_FEATURES)
    return _built(wrap(WithSubmodels(first, [_functional(wrap)])))


def _built(model: Any) -> Any:
    model(np.zeros((1, NUM_FEATURES)))
    return model


KINDS: dict[str, Callable[[Wrap], Any]] = {
    "functional": _functional,
    "two outputs": _two_outputs,
    "sequential": _sequential,
    "nested": _nested,
    "plain around distributed": _plain_around_distributed,
    "sequential of models": _sequential_of_models,
    "subclassed": _subclassed,
    "unregistered": _unregistered,
    "functional subclass": _functional_subclass,
    "with submodels": _with_submodels,
}


def make(kind: str, wrap: Wrap) -> Any:
    """The compiled model of that kind, whose names and weights are the same each time."""
    keras.backend.clear_session()
    keras.utils.set_random_seed(7)
    model = KINDS[kind](wrap)
    model.compile(
        keras.optimizers.Adam(1e-2),
        keras.losses.MeanSquaredError(),
        metrics=None if kind == "two outputs" else [keras.metrics.MeanAbsoluteError()],
    )
    return model
