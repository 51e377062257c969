"""All variables that decide how the training of a model goes on."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tnt_keras.keras_hooks.attributes import in_attributes
from tnt_keras.keras_hooks.private import all_layers, global_seed, has_global_seed
from tnt_keras.step.variables import backing, replicated_variables, states_of_generators


def variables_of(model: keras.Model) -> list[Any]:
    """Return the variables of a model that a backup holds, each once. Local.

    These are weights, optimizers with all that they remember, metrics, seeds of layers, states of
    TensorFlow's generators, `tf.Variable`s in attributes of layers, and the seed that Keras has for
    functions without one. All ranks have the same.
    """
    variables = [*replicated_variables(model._tnt_owner), *model.variables]
    optimizers = in_attributes(model, keras.optimizers.Optimizer)  # the compiled one, too
    variables += [each for optimizer in optimizers for each in optimizer.variables]
    variables += [each for metric in _all_metrics(model) for each in metric.variables]
    variables += [each for layer in all_layers(model) for each in _tensorflow_variables(layer)]
    variables += states_of_generators(model)
    if has_global_seed():
        variables.append(global_seed())
    unique: dict[int, Any] = {}
    for variable in variables:
        unique.setdefault(id(backing(variable)), variable)
    return list(unique.values())


def build_optimizer(model: keras.Model) -> None:
    """Make the variables of the compiled optimizer. Local."""
    optimizer = model.optimizer
    if optimizer is not None and not optimizer.built:
        optimizer.build(model.trainable_variables)


def values_of(variables: list[Any]) -> list[np.ndarray[Any, Any]]:
    """Return the values of variables. Local."""
    return [np.asarray(tf.convert_to_tensor(variable)) for variable in variables]


def _all_metrics(model: keras.Model) -> list[Any]:
    """Return the metrics of a model, also those that its own `metrics` leaves out."""
    metrics = [*model.metrics, *keras.Model.metrics.fget(model)]
    return list({id(metric): metric for metric in metrics}.values())


def _tensorflow_variables(layer: Any) -> list[Any]:
    return [
        variable
        for variable in in_attributes(layer, tf.Variable)
        if tf.as_dtype(variable.dtype) != tf.string
    ]
