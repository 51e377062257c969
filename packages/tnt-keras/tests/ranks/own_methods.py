"""Models that have methods of Keras in their own form; each run returns numpy values."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from classifiers import build_optimizer, samples

import tnt_keras


def _network(units: int, inputs: int = 10) -> Any:
    return keras.Sequential([keras.Input((inputs,)), keras.layers.Dense(units)])


def _made(model: Any, distributed: bool) -> Any:
    return tnt_keras.Model(model) if distributed else model


def _weights(model: Any) -> list[np.ndarray]:
    return [np.asarray(weight) for weight in model.get_weights()]


class Adversaries(keras.Model):
    """Two networks; `compile` takes their optimizers and a loss, and nothing of Keras'."""

    def __init__(self) -> None:
        super().__init__()
        self.generator, self.critic = _network(10, 3), _network(1)
        self.critic_tracker = keras.metrics.Mean(name="c_loss")

    def compile(self, d_optimizer: Any, g_optimizer: Any, loss_fn: Any = "mse") -> None:
        super().compile()
        self.d_optimizer, self.g_optimizer = d_optimizer, g_optimizer
        self.loss_fn = keras.losses.get(loss_fn) if isinstance(loss_fn, str) else loss_fn

    @property
    def metrics(self) -> list[Any]:
        return [self.critic_tracker]

    def train_step(self, real: Any) -> Any:
        noise = real[:, :3]
        fakes = self.generator(noise)
        both = tf.concat([fakes, real], axis=0)
        labels = tf.concat([tf.ones_like(fakes[:, :1]), tf.zeros_like(real[:, :1])], axis=0)
        with tf.GradientTape() as tape:
            loss = self.loss_fn(labels, self.critic(both))
        weights = self.critic.trainable_weights
        self.d_optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        self.critic_tracker.update_state(loss)
        with tf.GradientTape() as tape:
            loss = self.loss_fn(tf.zeros_like(noise[:, :1]), self.critic(self.generator(noise)))
        weights = self.generator.trainable_weights
        self.g_optimizer.apply(tape.gradient(loss, weights), weights)
        return {"c_loss": self.critic_tracker.result()}


def own_compile(distributed: bool) -> dict[str, Any]:
    """`compile(d_optimizer, g_optimizer, loss_fn)`, by position and by keyword."""
    keras.utils.set_random_seed(31)
    model = _made(Adversaries(), distributed)
    sgd = keras.optimizers.SGD
    loss = keras.losses.MeanSquaredError()
    model.compile(sgd(0.05, momentum=0.9), g_optimizer=sgd(0.02), loss_fn=loss)
    history = model.fit(samples()[0], batch_size=5, shuffle=False, epochs=2, verbose=0)
    optimizers = [model.d_optimizer, model.g_optimizer, model.optimizer]
    return {
        "weights": _weights(model),
        "history": history.history,
        "compiled": [type(optimizer).__name__ for optimizer in optimizers],
    }


class OwnDefaults(keras.Model):
    """Its `compile` has other defaults than Keras, and hands on only what it wants."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(10)

    def call(self, inputs: Any) -> Any:
        return self.dense(inputs)

    def compile(self, optimizer: Any = "adagrad", loss: Any = "mae", rate: float = 0.5) -> None:
        super().compile(optimizer, loss=loss, jit_compile=False)
        self.optimizer.learning_rate = rate


class Scaling(OwnDefaults):
    """Scales its samples in methods with arguments of its own, and adds to what they return."""

    def fit(self, data: Any, factor: float = 2.0, *, rounds: int = 1) -> Any:
        x = factor * data
        history = [super(Scaling, self).fit(x, -x, 5, 1, 0, shuffle=False) for _ in range(rounds)]
        return [each.history["loss"][0] for each in history]

    def evaluate(self, data: Any, factor: float = 2.0, **kwargs: Any) -> Any:
        x = factor * data
        return {"half": super().evaluate(x, -x, 7, 0, **kwargs) / 2}

    def predict(self, data: Any, factor: float = 2.0) -> Any:
        return super().predict(factor * data, verbose=0) / factor

    def train_on_batch(self, data: Any) -> Any:
        return super().train_on_batch(2 * data, data)

    def predict_on_batch(self, data: Any) -> Any:
        return super().predict_on_batch(2 * data)

    def train_step(self, data: Any, *, factor: float = 3.0) -> Any:
        return super().train_step((factor * data[0], data[1]))


def own_calls(distributed: bool) -> dict[str, Any]:
    """`compile`, `fit`, `evaluate`, `predict` and `*_on_batch` in the user's own form."""
    keras.utils.set_random_seed(33)
    model = _made(Scaling(), distributed)
    model.compile(rate=0.25)
    x = samples()[0]
    return {
        "compiled": [type(model.optimizer).__name__, model.loss],
        "fit": model.fit(x, 0.5, rounds=3),
        "evaluate": model.evaluate(x, 0.5, sample_weight=np.arange(len(x)) / len(x)),
        "predict": model.predict(x, factor=4.0),
        "train_on_batch": model.train_on_batch(x[:7]),
        "predict_on_batch": model.predict_on_batch(x[:4]),
        "weights": _weights(model),
    }


def used_before(distributed: bool, run_eagerly: bool) -> dict[str, Any]:
    """A model that was fitted, evaluated and used before it is distributed."""
    keras.utils.set_random_seed(34)
    model = _network(10)
    model.compile(keras.optimizers.Adam(0.01), "mse", metrics=["mae"], run_eagerly=run_eagerly)
    x = samples()[0]
    build_optimizer(model)
    before = {"batch_size": 5, "verbose": 0}
    model.fit(x, -x, shuffle=False, epochs=2, **before)
    model.evaluate(x, -x, **before)
    model.predict(x, **before)
    model = _made(model, distributed)
    history = model.fit(x, -x, shuffle=False, epochs=2, **before)
    return {
        "weights": _weights(model),
        "history": history.history,
        "evaluate": model.evaluate(x, -x, **before),
        "predict": model.predict(x, **before),
        "on_batch": model.train_on_batch(x[:7], -x[:7]),
    }


def few_rows(distributed: bool, run_eagerly: bool) -> dict[str, Any]:
    """`*_on_batch` with fewer rows than ranks, sample weights and class weights."""
    keras.utils.set_random_seed(35)
    model = _made(keras.Sequential([keras.layers.Dense(3, "softmax")]), distributed)
    model.compile(
        keras.optimizers.SGD(0.1, momentum=0.9),
        "sparse_categorical_crossentropy",
        metrics=["accuracy"],
        weighted_metrics=["sparse_categorical_crossentropy"],
        run_eagerly=run_eagerly,
    )
    x, y = samples(4)
    weights = np.asarray([0.5, 2.0, 0.0, 1.5], np.float32)
    classes = {0: 0.2, 1: 1.5, 2: 4.0}
    train: list[Any] = []
    for rows in (1, 2, 4, 1):
        some = slice(0, rows)
        train += [
            model.train_on_batch(x[some], y[some]),
            model.train_on_batch(x[some], y[some], sample_weight=weights[some]),
            model.train_on_batch(x[some], y[some], class_weight=classes),
            model.train_on_batch(x[some], y[some], return_dict=True),
            model.test_on_batch(x[some], y[some], weights[some]),
            model.test_on_batch(tf.constant(x[some]), y[some], return_dict=True),
        ]
    in_lists = [
        [each[name] for name in sorted(each)] if isinstance(each, dict) else each for each in train
    ]
    return {
        "weights": _weights(model),
        "results": in_lists,
        "predict": [model.predict_on_batch(x[:rows]) for rows in (1, 2, 4)],
    }
