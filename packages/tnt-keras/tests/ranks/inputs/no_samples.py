"""Calls that are given no samples: arrays without rows, datasets without elements."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from classifiers import classifier, compiled, samples

import tnt_keras

BATCH_SIZE = 5


def _dataset() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(samples())


def _open() -> tf.data.Dataset:
    """A dataset that tells only when it is read that it has no elements."""
    return _dataset().filter(lambda x, y: y < 0).batch(BATCH_SIZE)


def _of_python() -> tf.data.Dataset:
    spec = (tf.TensorSpec([None, 10]), tf.TensorSpec([None], tf.int64))
    return tf.data.Dataset.from_generator(lambda: iter(()), output_signature=spec)


INPUTS: dict[str, Callable[[], Any]] = {
    "arrays": lambda: tuple(part[:0] for part in samples()),
    "dataset": lambda: _dataset().batch(BATCH_SIZE).take(0),
    "dataset of open length": _open,
    "dataset of Python": _of_python,
    "less than a batch": lambda: _dataset().take(2).batch(BATCH_SIZE, drop_remainder=True),
}


def _fit(model: Any, given: Any, **more: Any) -> Any:
    data = given if isinstance(given, tuple) else (given,)
    return model.fit(*data, epochs=2, verbose=0, **more).history


CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "fit": _fit,
    "fit with validation": lambda model, given: _fit(model, given, validation_data=given),
    "fit in steps": lambda model, given: _fit(model, given, steps_per_epoch=2),
    "fit with weights": lambda model, given: _fit(model, given, class_weight={0: 0.5, 2: 3.0}),
    "fit read by rank 0": lambda model, given: _fit(
        model, given, **({"tnt_read": "rank 0"} if isinstance(model, tnt_keras.Model) else {})
    ),
    "validation": lambda model, given: _fit(model, samples(), shuffle=False, validation_data=given),
    "validation in steps": lambda model, given: _fit(
        model, samples(), shuffle=False, validation_data=given, validation_steps=2
    ),
    "evaluate": lambda model, given: model.evaluate(
        *(given if isinstance(given, tuple) else (given,)), verbose=0, return_dict=True
    ),
    "predict": lambda model, given: model.predict(
        given[0] if isinstance(given, tuple) else given, verbose=0
    ),
}


MODELS: dict[str, Callable[[bool], Any]] = {
    "classifier": classifier,
    "several steps": functools.partial(classifier, steps_per_execution=2),
    "eager": functools.partial(classifier, run_eagerly=True),
    "not built": lambda distributed: _not_built(distributed),
}


def _not_built(distributed: bool) -> Any:
    """A classifier whose weights are made when its first step is traced."""
    keras.utils.set_random_seed(11)
    model = keras.Sequential([keras.layers.Dense(3, activation="softmax")])
    arguments = {"optimizer": "adam", "loss": "sparse_categorical_crossentropy"}
    return compiled(model, distributed, arguments | {"metrics": ["accuracy"]})


def ends(
    distributed: bool, model: str, inputs: Sequence[str], calls: Sequence[str]
) -> dict[str, Any]:
    """What each call returns or raises, and what it leaves in the model."""
    return {
        f"{call} of {name}": _end_of(CALLS[call], MODELS[model](distributed), INPUTS[name]())
        for name in inputs
        for call in calls
    }


def _end_of(call: Callable[[Any, Any], Any], model: Any, given: Any) -> dict[str, Any]:
    try:
        end = call(model, given)
    except Exception as error:
        # What divides by the number of samples says so in other words.
        is_division = isinstance(error, ZeroDivisionError)
        end = type(error).__name__ if is_division else f"{type(error).__name__}: {error}"
    return {
        "end": end,
        "iterations": int(model.optimizer.iterations),
        "weights": [np.asarray(weight) for weight in model.get_weights()],
    }


def one_rank_without() -> str:
    """The error where the master rank has no samples of its own, and others have some."""
    own = _open() if tnt_keras.get_rank() == 0 else _dataset().filter(lambda x, y: True).batch(5)
    try:
        classifier(True).fit(own, tnt_distribute_dataset=False, verbose=0)
    except ValueError as error:
        return str(error)
    return "none"


def steps_of_arrays() -> str:
    """The error where the number of steps is to give the batch size of arrays without rows."""
    try:
        _fit(classifier(True), samples(), validation_data=INPUTS["arrays"](), validation_steps=2)
    except ZeroDivisionError as error:
        return str(error)
    return "none"
