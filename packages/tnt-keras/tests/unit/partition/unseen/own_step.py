"""A model whose step is its own: one loss of a batch, one optimizer."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf


class OwnLoss(keras.Model):
    """A model that minimises `loss_of(data)`, a scalar and a dictionary of logs.

    Its log is not called "loss": if that is the only one, Keras shows its own metric instead.
    """

    def loss_of(self, data: Any, training: bool) -> tuple[Any, dict[str, Any]]:
        raise NotImplementedError

    def after(self, data: Any) -> None:
        """Do what follows each update."""

    def train_step(self, data: Any) -> dict[str, Any]:
        with tf.GradientTape() as tape:
            loss, logs = self.loss_of(data, training=True)
        variables = self.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        self.after(data)
        return {"total": loss, **logs}

    def test_step(self, data: Any) -> dict[str, Any]:
        loss, logs = self.loss_of(data, training=False)
        return {"total": loss, **logs}


def mlp(*widths: int, activation: str = "relu", last: str | None = None) -> Any:
    """Return a perceptron of these widths, the first of which is that of its input."""
    first, *hidden, outputs = widths
    layers = [keras.layers.Dense(w, activation=activation) for w in hidden]
    return keras.Sequential(
        [keras.Input((first,)), *layers, keras.layers.Dense(outputs, activation=last)]
    )
