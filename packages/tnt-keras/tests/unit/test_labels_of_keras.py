"""Whether labels meet code of Keras alone."""

from __future__ import annotations

from typing import Any

import keras
import pytest

from tnt_keras.probe.samples.labels_of_keras import are_labels_of_keras


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
    assert are_labels_of_keras(compiled(**arguments))


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
    assert not are_labels_of_keras(compiled(**arguments))
