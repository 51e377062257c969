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
