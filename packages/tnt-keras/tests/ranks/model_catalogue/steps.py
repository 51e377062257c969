"""Parts of many cases: a small network, and the training step of the Keras guides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf


def network(
    outputs: int = 1, inputs: int = 6, activation: str | None = None, hidden: int = 5
) -> Any:
    """Return a functional model of two dense layers, with outputs in float32 as Keras advises."""
    x = keras.Input((inputs,))
    y = keras.layers.Dense(hidden, activation="tanh")(x)
    return keras.Model(x, keras.layers.Dense(outputs, activation=activation, dtype="float32")(y))


class OwnStep(keras.Model):
    """A model with the `train_step` and `test_step` of the Keras guides.

    Args:
        inner: What `call` calls.
        loss_of: Computes the loss of a batch from the model, `x` and `y`.
    """

    def __init__(self, inner: Any, loss_of: Callable[[Any, Any, Any], Any]) -> None:
        super().__init__()
        self.inner = inner
        self.loss_of = loss_of
        self.loss_tracker = keras.metrics.Mean(name="loss")

    @property
    def metrics(self) -> list[Any]:
        return [self.loss_tracker]

    def call(self, x: Any, training: bool = False) -> Any:
        return self.inner(x, training=training)

    def train_step(self, data: Any) -> Any:
        x, y = data if isinstance(data, tuple) else (data, data)
        with tf.GradientTape() as tape:
            loss = self.loss_of(self, x, y)
        gradients = self.changed(tape.gradient(loss, self.trainable_variables))
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return self.logs(x, y, loss)

    def changed(self, gradients: list[Any]) -> list[Any]:
        """Return what is applied."""
        return gradients

    def logs(self, x: Any, y: Any, loss: Any) -> dict[str, Any]:
        """Update the metrics and return the logs of a step."""
        self.loss_tracker.update_state(loss)
        return {"loss": self.loss_tracker.result()}

    def test_step(self, data: Any) -> Any:
        x, y = data if isinstance(data, tuple) else (data, data)
        self.loss_tracker.update_state(self.loss_of(self, x, y))
        return {"loss": self.loss_tracker.result()}


def own_step(
    loss_of: Callable[[Any, Any, Any], Any],
    inner: Any = None,
    optimizer: Any = None,
    kind: type[OwnStep] = OwnStep,
) -> OwnStep:
    """Return a compiled model with its own step, by default around `network()`."""
    model = kind(network() if inner is None else inner, loss_of)
    model.compile(optimizer=keras.optimizers.SGD(0.1) if optimizer is None else optimizer)
    return model


def squared_errors(model: Any, x: Any, y: Any) -> Any:
    """Return one squared error per sample."""
    return tf.reduce_mean(tf.square(model(x, training=True) - y), axis=-1)


def mean_squared_error(model: Any, x: Any, y: Any) -> Any:
    """Return the mean over samples, which ranks can take in parts."""
    return tf.reduce_mean(squared_errors(model, x, y))
