"""Optimizers that are not simply compiled into one model; each run returns numpy values."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from classifiers import samples

import tnt_keras


class MakesOptimizers(keras.Model):
    """Its step makes the optimizer that it applies."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(10)
        self.loss_tracker = keras.metrics.Mean(name="loss")
        self.own_optimizer: Any = None

    def call(self, inputs: Any) -> Any:
        return self.dense(inputs)

    def train_step(self, data: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self(data) - data))
        gradients = tape.gradient(loss, self.trainable_variables)
        if self.own_optimizer is None:  # TensorFlow allows new variables in the first trace only
            self.own_optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
        self.own_optimizer.apply(gradients, self.trainable_variables)
        self.loss_tracker.update_state(loss)
        return {"loss": self.loss_tracker.result()}


def made_in_the_step(distributed: bool) -> dict[str, Any]:
    """Trains with an optimizer that exists only in the step."""
    keras.utils.set_random_seed(21)
    model = MakesOptimizers()
    if distributed:
        model = tnt_keras.Model(model)
    model.compile()
    model.fit(samples()[0], batch_size=5, shuffle=False, epochs=2, verbose=0)
    return {"weights": _weights(model)}


class AppliesTwice(MakesOptimizers):
    """Its step applies its optimizer to the gradients of two losses, one after the other."""

    def train_step(self, data: Any) -> Any:
        with tf.GradientTape(persistent=True) as tape:
            error = self(data) - data
            losses = [tf.reduce_mean(tf.square(error)), tf.reduce_mean(tf.abs(error))]
        for loss in losses:
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply(gradients, self.trainable_variables)
            self.loss_tracker.update_state(loss)
        return {"loss": self.loss_tracker.result()}


def applied_twice(distributed: bool) -> dict[str, Any]:
    """Trains with an optimizer that a step applies twice."""
    keras.utils.set_random_seed(24)
    model = AppliesTwice()
    if distributed:
        model = tnt_keras.Model(model)
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9))
    model.fit(samples()[0], batch_size=5, shuffle=False, epochs=2, verbose=0)
    return {"weights": _weights(model), "iterations": int(model.optimizer.iterations)}


def shared_by_two_models(distributed: bool) -> dict[str, Any]:
    """Trains two models of the same layers in turn, with one optimizer, compiled twice."""
    keras.utils.set_random_seed(22)
    inputs = keras.Input((10,))
    outputs = keras.layers.Dense(10)(inputs)
    models: list[Any] = [keras.Model(inputs, outputs), keras.Model(inputs, outputs)]
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
    if distributed:
        models = [tnt_keras.Model(model) for model in models]
    x = samples()[0]
    for _ in range(2):
        for model, loss in zip(models, ("mse", "mae"), strict=True):
            model.compile(optimizer, loss)
            model.fit(x, -x, batch_size=5, shuffle=False, verbose=0)
    return {"weights": _weights(models[0]), "iterations": int(optimizer.iterations)}


def shared_with_a_loss_scale(distributed: bool) -> dict[str, Any]:
    """Trains with an optimizer that is also the inner one of another model's optimizer."""
    keras.utils.set_random_seed(23)
    inputs = keras.Input((10,))
    outputs = keras.layers.Dense(10)(inputs)
    models: list[Any] = [keras.Model(inputs, outputs), keras.Model(inputs, outputs)]
    inner = keras.optimizers.SGD(0.1, momentum=0.9)
    optimizers = [inner, keras.optimizers.LossScaleOptimizer(inner, initial_scale=4.0)]
    if distributed:
        models = [tnt_keras.Model(model) for model in models]
    x = samples()[0]
    for model, optimizer in zip(models, optimizers, strict=True):
        model.compile(optimizer, "mse")
        model.fit(x, -x, batch_size=5, shuffle=False, verbose=0)
    return {"weights": _weights(models[0]), "iterations": int(inner.iterations)}


def _weights(model: Any) -> list[np.ndarray]:
    return [np.asarray(weight) for weight in model.get_weights()]
