"""What a proof leaves behind, says and costs; each function runs on every rank of a pool."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import random
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tnt_keras
from tnt_keras.model import model as model_module
from tnt_keras.model import proved_steps
from tnt_keras.probe.comparison import scenario_comparison


def samples(num_samples: int = 23) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    return rng.normal(size=(num_samples, 6)).astype("float32"), rng.integers(0, 3, num_samples)


def everything(counting: bool = True) -> keras.Model:
    """A model with all that a step can change: weights, statistics, seeds, perhaps a counter."""
    keras.utils.set_random_seed(3)
    model = keras.Sequential(
        [
            keras.Input((6,)),
            keras.layers.Dense(8, activation="relu"),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.3),
            *([Counting()] if counting else []),
            keras.layers.Dense(3, activation="softmax"),
        ]
    )
    model.compile(
        keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy", metrics=["accuracy"]
    )
    return model


class Counting(keras.layers.Layer):
    """Counts its samples."""

    def build(self, input_shape: Any) -> None:
        self.seen = self.add_weight(
            shape=(), dtype="int32", initializer="zeros", trainable=False, name="seen"
        )

    def call(self, x: Any, training: bool = False) -> Any:
        if training:
            self.seen.assign_add(keras.ops.shape(x)[0])
        return x


class Quotient(keras.Model):
    """Its loss is a quotient of sums, which cannot be computed on parts."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(1)

    def call(self, x: Any) -> Any:
        return self.dense(x)

    def train_step(self, data: Any) -> Any:
        x, y = data[:2]
        mask = tf.cast(y > 0, tf.float32)[:, None]
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(mask * self(x) ** 2) / tf.reduce_sum(mask)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return {"loss": loss}


def dense(probe: str) -> keras.Model:
    """The least that trains, is tested and predicts."""
    keras.utils.set_random_seed(3)
    layers = [keras.Input((6,)), keras.layers.Dense(3, activation="softmax")]
    model = tnt_keras.Model(keras.Sequential(layers), probe=probe)
    model.compile("sgd", "sparse_categorical_crossentropy")
    return model


def quotient(probe: str) -> keras.Model:
    keras.utils.set_random_seed(4)
    model = tnt_keras.Model(Quotient(), probe=probe)
    model.compile("sgd")
    return model


def trained(probe: str, fit_arguments: dict[str, Any]) -> dict[str, Any]:
    """The bits of all that a training leaves, with or without proof."""
    model = tnt_keras.Model(everything(counting=False), probe=probe)
    random.seed(1)
    np.random.seed(1)
    x, y = samples()
    history = model.fit(x, y, batch_size=7, epochs=2, verbose=0, **fit_arguments)
    return {
        "history": history.history,
        "variables": [np.asarray(v.value) for v in model.variables],
        "optimizer": [np.asarray(v.value) for v in model.optimizer.variables],
        "random": (random.random(), np.random.random()),
    }


def counted(fit_epochs: int = 1) -> dict[str, int]:
    """How often steps were proved: two fits, evaluations and predictions, then a new compile."""
    proofs: list[str] = []
    prove = proved_steps.prove

    def counting(model: Any, step_name: str, *arguments: Any) -> Any:
        proofs.append(step_name)
        return prove(model, step_name, *arguments)

    proved_steps.prove = counting
    try:
        model = dense("error")
        x, y = samples()
        for _ in range(2):
            model.fit(x, y, batch_size=7, epochs=fit_epochs, verbose=0)
            model.evaluate(x, y, batch_size=7, verbose=0)
            model.predict(x, batch_size=7, verbose=0)
        before = list(proofs)
        model.compile("sgd", "sparse_categorical_crossentropy")
        model.train_on_batch(x[:7], y[:7])
    finally:
        proved_steps.prove = prove
    names = ("train_step", "test_step", "predict_step")
    return {name: before.count(name) for name in names} | {"after compile": len(proofs)}


def updates_in_a_proof() -> int:
    """How often the optimizer is run while a training is proved, which is done eagerly."""
    updates: list[bool] = []

    class Noting(keras.optimizers.SGD):
        def apply(self, grads: Any, trainable_variables: Any = None) -> None:
            updates.append(tf.executing_eagerly())
            super().apply(grads, trainable_variables)

    model = tnt_keras.Model(everything(counting=False), probe="error")
    model.compile(Noting(0.1), "sparse_categorical_crossentropy")
    x, y = samples()
    model.fit(x, y, batch_size=7, verbose=0)
    return sum(updates)


def refused(method: str) -> str:
    """The error of a fit, or that of a train_on_batch."""
    (x, y), model = samples(), quotient("error")
    try:
        if method == "fit":
            model.fit(x, y, batch_size=7, verbose=0)
        else:
            model.train_on_batch(x[:7], y[:7])
    except tnt_keras.ProbeError as error:
        return str(error)
    return "trained"


def cancelled(can_be_finer: bool) -> str:
    """How a fit ends whose only gradient is a small rest of large numbers in each sample."""
    a, b = np.random.default_rng(1).uniform(500.0, 1000.0, (2, 8, 1))
    x = np.stack([a, b, -a, 1e-3 - b], axis=1).astype("float32")
    finer_types = scenario_comparison.finer_types
    scenario_comparison.finer_types = finer_types if can_be_finer else lambda model: []
    layers = [
        keras.Input((4, 1)),
        keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros"),
        keras.layers.GlobalAveragePooling1D(),
    ]
    model = tnt_keras.Model(keras.Sequential(layers), probe="error")
    model.compile(keras.optimizers.SGD(1e-9), "mse")
    try:
        model.fit(x, np.full(8, 1e3), batch_size=8, shuffle=False, verbose=0)
    except tnt_keras.ProbeError as error:
        return str(error)
    finally:
        scenario_comparison.finer_types = finer_types
    return "trained"


class Weighted(Quotient):
    """Its loss is a mean, but with sample weights a quotient of sums."""

    def train_step(self, data: Any) -> Any:
        x, _, weights = keras.utils.unpack_x_y_sample_weight(data)
        with tf.GradientTape() as tape:
            errors = tf.reduce_sum(self(x) ** 2, axis=1)
            if weights is None:
                loss = tf.reduce_mean(errors)
            else:
                loss = tf.reduce_sum(weights * errors) / tf.reduce_sum(weights)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return {"loss": loss}


def fitted_without_and_with_weights() -> list[str]:
    """What four fits of one model end with: without, with, with, and without sample weights."""
    keras.utils.set_random_seed(4)
    model = tnt_keras.Model(Weighted(), probe="error")
    model.compile("sgd")
    x, y = samples()
    weights = np.linspace(0.1, 2.0, len(x))
    ends = []
    for sample_weight in (None, weights, weights, None):
        try:
            model.fit(x, y, sample_weight=sample_weight, batch_size=7, verbose=0)
            ends.append("trained")
        except tnt_keras.ProbeError:
            ends.append("refused")
    return ends


@contextlib.contextmanager
def records_of_log() -> Iterator[list[tuple[str, str]]]:
    """Level and text of what is logged in a block."""
    records: list[tuple[str, str]] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append((record.levelname, record.getMessage()))

    logger = logging.getLogger("tnt_keras")
    level, handler = logger.level, Keep()
    logger.addHandler(handler)
    logger.setLevel("INFO")
    try:
        yield records
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)


def logged(probe: str, build: str) -> list[tuple[str, str]]:
    """Level and text of what is logged in a fit."""
    with records_of_log() as records:
        x, y = samples()
        if build == "quotient":
            model = quotient(probe)
        elif build == "failing":
            model = failing(probe)
        else:
            model = tnt_keras.Model(everything(counting=probe != "off"), probe=probe)
        model.fit(x, y, batch_size=7, verbose=0)
    return records


def thawed_without_compile(distributed: bool) -> tuple[list[np.ndarray], list[str]]:
    """Weights after a layer that was compiled frozen is trainable again, and what was warned of."""
    keras.utils.set_random_seed(8)
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4), keras.layers.Dense(3)])
    if distributed:
        model = tnt_keras.Model(model, probe="error")
    model.layers[0].trainable = False
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    x, y = samples()
    with records_of_log() as records:
        model.fit(x, y, batch_size=7, shuffle=False, verbose=0)
        model.layers[0].trainable = True
        model.fit(x, y, batch_size=7, epochs=2, shuffle=False, verbose=0)
    weights = [np.asarray(weight.value) for weight in model.layers[0].weights]
    return weights, [text for level, text in records if level == "WARNING"]


def failing(probe: str) -> keras.Model:
    """A model that takes batches of 7 or 2 samples in all, but not of 5."""

    class OnlyWholeBatches(keras.layers.Layer):
        def call(self, x: Any) -> Any:
            if tf.executing_eagerly():
                raise ValueError("not eagerly")
            return tf.ensure_shape(x, (None, 6)) if x.shape[0] is None else self.refuse()

        def refuse(self) -> Any:
            raise ValueError("only batches of unknown size")

    keras.utils.set_random_seed(5)
    model = keras.Sequential([keras.Input((6,)), OnlyWholeBatches(), keras.layers.Dense(3)])
    model = tnt_keras.Model(model, probe=probe)
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def counting_from_the_second_epoch(distributed: bool) -> int:
    """What a layer has counted that begins to count when a callback says so."""

    class LateCounting(keras.layers.Layer):
        def build(self, input_shape: Any) -> None:
            self.seen = self.add_weight(
                shape=(), dtype="int32", initializer="zeros", trainable=False, name="seen"
            )
            self.counts = self.add_weight(
                shape=(), dtype="int32", initializer="zeros", trainable=False, name="counts"
            )

        def call(self, x: Any, training: bool = False) -> Any:
            if training:
                self.seen.assign_add(self.counts * keras.ops.shape(x)[0])
            return x

    class Begin(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            layer.counts.assign(int(epoch > 0))

    keras.utils.set_random_seed(6)
    layer = LateCounting()
    model = keras.Sequential([keras.Input((6,)), layer, keras.layers.Dense(3)])
    if distributed:
        model = tnt_keras.Model(model, probe="error")
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    x, y = samples()
    model.fit(x, y, batch_size=7, epochs=2, verbose=0, callbacks=[Begin()])
    return int(layer.seen.value)


def in_float8(distributed: bool) -> dict[str, Any]:
    """The scales of a model that computes in float8, which only a graph can."""
    keras.utils.set_random_seed(7)
    model = keras.Sequential(
        [keras.Input((6,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(3)]
    )
    model.quantize("float8")
    if distributed:
        model = tnt_keras.Model(model, probe="error")
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    x, y = samples()
    model.fit(x, y, batch_size=7, epochs=2, shuffle=False, verbose=0)
    return {
        variable.path.rsplit("/", 1)[1]: np.asarray(variable.value)
        for variable in model.layers[0].trainable_variables
        if variable.overwrite_with_gradient
    }


def with_proof(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns whose models are all proved."""
    settings = model_module.settings
    model_module.settings = lambda: dataclasses.replace(settings(), probe="error")
    try:
        return function(*arguments)
    finally:
        model_module.settings = settings


def deep_network_of_random_images() -> float:
    """The loss of a step of ResNet-50, whose gradients are off by a hundredth in float32."""
    keras.utils.set_random_seed(1)
    model = keras.applications.ResNet50(weights=None, classes=10)
    model = tnt_keras.Model(model, probe="error")
    model.compile(keras.optimizers.SGD(0.01, momentum=0.9), "sparse_categorical_crossentropy")
    generator = np.random.default_rng(2)
    x = generator.normal(size=(16, 224, 224, 3)).astype("float32")
    history = model.fit(x, generator.integers(0, 10, 16), batch_size=16, verbose=0)
    return float(history.history["loss"][0])


def refused_predictions() -> str:
    """Why predictions that depend on other rows are refused, after that of a single sample."""
    x = keras.Input((4,))
    y = keras.layers.Dense(1)(x)
    model = tnt_keras.Model(keras.Model(x, y - keras.ops.mean(y, axis=0)), probe="error")
    samples = np.random.default_rng(5).normal(size=(9, 4)).astype("float32")
    model.predict(samples[:1], verbose=0)
    try:
        model.predict(samples, verbose=0)
    except tnt_keras.ProbeError as error:
        return str(error)
    return ""
