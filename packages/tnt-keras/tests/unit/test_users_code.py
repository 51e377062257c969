"""What of samples meets code of Keras alone."""

from __future__ import annotations

from typing import Any

import keras
import pytest

from tnt_keras.probe.samples.users_code import UsersCode


def own_function(y: Any, outputs: Any) -> Any:
    return keras.ops.mean(y - outputs, axis=-1)


class OwnLoss(keras.losses.Loss):
    def call(self, y: Any, outputs: Any) -> Any:
        return own_function(y, outputs)


class OwnMetric(keras.metrics.MeanAbsoluteError):
    pass


class OwnStep(keras.Model):
    def train_step(self, data: Any) -> Any:
        return super().train_step(data)


def compiled(model_class: type[keras.Model] = keras.Model, **arguments: Any) -> keras.Model:
    x = keras.Input((3,))
    y = keras.layers.ActivityRegularization(0.1)(keras.layers.Dense(2)(x))
    model = model_class(x, y)
    model.compile(**arguments)
    model.evaluate(keras.ops.ones((4, 3)), keras.ops.ones((4, 2)), verbose=0)
    return model


@pytest.mark.parametrize(
    "arguments",
    [
        {"loss": "mse"},
        {"loss": keras.losses.huber, "metrics": ["mae", keras.metrics.AUC()]},
        {"loss": [keras.losses.Poisson()], "weighted_metrics": ["mse"]},
    ],
    ids=["name", "function", "objects"],
)
def test_losses_and_metrics_of_keras_are_known(arguments: dict[str, Any]) -> None:
    assert UsersCode.of_step(compiled(**arguments), "train_step") == UsersCode(False, False)


@pytest.mark.parametrize(
    "arguments",
    [
        {"loss": own_function},
        {"loss": OwnLoss()},
        {"loss": "mse", "metrics": [own_function]},
        {"loss": "mse", "metrics": ["mae", OwnMetric()]},
        {"loss": "mse", "model_class": OwnStep},
        {"loss": None, "metrics": ["mae"]},
    ],
    ids=["function", "loss", "metric function", "metric", "step", "no loss"],
)
def test_what_a_user_wrote_is_not(arguments: dict[str, Any]) -> None:
    assert UsersCode.of_step(compiled(**arguments), "train_step") == UsersCode(True, True)


class OwnLayer(keras.layers.Dense):
    pass


@pytest.mark.parametrize(
    ("layer", "is_own"),
    [
        (keras.layers.Dense(2, activation="relu", kernel_regularizer="l2"), False),
        (keras.layers.TimeDistributed(keras.layers.Dense(2)), False),
        (OwnLayer(2), True),
        (keras.layers.Dense(2, activation=lambda values: values), True),
        (keras.layers.Lambda(lambda values: values), True),
        (keras.layers.TimeDistributed(OwnLayer(2)), True),
        (lambda values: 2.0 * values, True),
    ],
    ids=["Dense", "wrapper", "class", "activation", "Lambda", "wrapped class", "operation"],
)
def test_inputs_are_seen_by_layers_and_operations_of_the_user(layer: Any, is_own: bool) -> None:
    x = keras.Input((3, 4))
    model = keras.Model(x, layer(x))
    model.compile(loss="mse")
    assert UsersCode.of_step(model, "train_step") == UsersCode(is_own, False)
