"""Steps that compute something from the results of metrics before they end."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from . import data
from .case import Training, wrong
from .steps import OwnStep, mean_squared_error, network, own_step


def _trained(kind: type[OwnStep], **arguments: Any) -> Training:
    model = own_step(mean_squared_error, kind=kind)
    return model, data.of_arrays(data.features(), data.targets(), **arguments)


class LogsFunctions(OwnStep):
    """Returns functions of a running mean, as language models do."""

    def logs(self, x: Any, y: Any, loss: Any) -> dict[str, Any]:
        logs = super().logs(x, y, loss)
        result = self.loss_tracker.result()
        return logs | {"perplexity": tf.exp(result), "root": tf.sqrt(result)}


@wrong()
def perplexity_of_a_running_loss() -> Training:
    return _trained(LogsFunctions)


class LogsRatio(OwnStep):
    """Returns the ratio of two running means."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.spread = keras.metrics.Mean(name="spread")

    @property
    def metrics(self) -> list[Any]:
        return [self.loss_tracker, self.spread]

    def logs(self, x: Any, y: Any, loss: Any) -> dict[str, Any]:
        logs = super().logs(x, y, loss)
        self.spread.update_state(tf.abs(y))
        return logs | {"relative": self.loss_tracker.result() / self.spread.result()}


@wrong(evaluates=False)
def ratio_of_running_means() -> Training:
    return _trained(LogsRatio)


class WeightsByResult(OwnStep):
    """Divides gradients by the running loss, of which the batch is already part."""

    def train_step(self, data: Any) -> Any:
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.loss_of(self, x, y)
        self.loss_tracker.update_state(loss)
        scale = 1.0 / (1.0 + self.loss_tracker.result())
        gradients = [scale * each for each in tape.gradient(loss, self.trainable_variables)]
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return {"loss": self.loss_tracker.result(), "scale": scale}


@wrong()
def gradients_divided_by_the_running_loss() -> Training:
    return _trained(WeightsByResult)


class OfCompiledMetrics(keras.Model):
    """Adds a function of compiled metrics to Keras' own logs."""

    def train_step(self, data: Any) -> Any:
        logs = dict(super().train_step(data))
        return logs | {"error": 1.0 - logs["accuracy"]}


@wrong()
def error_rate_of_the_compiled_accuracy() -> Training:
    inner = network(3)
    model = OfCompiledMetrics(inner.inputs, inner.outputs)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"])
    return model, data.of_arrays(data.features(), data.labels())
