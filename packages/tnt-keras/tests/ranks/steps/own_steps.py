"""Steps as users write them, with optimizers, variables and logs of all kinds; numpy values."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from classifiers import samples

import tnt_keras


class Base(keras.Model):
    """One dense layer; its steps are written below it."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(10)

    def call(self, inputs: Any) -> Any:
        return self.dense(inputs)

    def gradients(self, data: Any, scale: Any = tf.identity) -> tuple[Any, list[Any]]:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self(data, training=True) + data))
            scaled = scale(loss)
        return loss, tape.gradient(scaled, self.trainable_variables)


def _trained(model: Any, distributed: bool, **compile_arguments: Any) -> dict[str, Any]:
    """Two epochs; the last batch of each has fewer samples than ranks."""
    if distributed:
        model = tnt_keras.Model(model)
    compile_arguments.setdefault("optimizer", keras.optimizers.SGD(0.1, momentum=0.9))
    model.compile(**compile_arguments)
    x = samples(21)[0]
    history = model.fit(x, batch_size=5, shuffle=False, epochs=2, verbose=0)
    weights = [np.asarray(weight) for weight in model.get_weights()]
    return {"weights": weights, "history": history.history}


class OtherScale(Base):
    """The loss is scaled by one optimizer, its gradients are applied by another."""

    def __init__(self, scaling: Any) -> None:
        super().__init__()
        self.scaling = scaling

    def train_step(self, data: Any) -> Any:
        loss, gradients = self.gradients(data, self.scaling.scale_loss)
        self.optimizer.apply(gradients, self.trainable_variables)
        return {"loss": loss}


def loss_scale_of_another_optimizer(distributed: bool, run_eagerly: bool) -> dict[str, Any]:
    keras.utils.set_random_seed(41)

    def scaling(rate: float) -> Any:
        inner = keras.optimizers.SGD(rate, momentum=0.9)
        return keras.optimizers.LossScaleOptimizer(inner, initial_scale=8.0)

    model = OtherScale(scaling(0.0))
    return _trained(model, distributed, optimizer=scaling(0.1), run_eagerly=run_eagerly)


class AppliesTwice(Base):
    """Applies one optimizer to the gradients of two losses, also to the slices of an embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = keras.layers.Embedding(4, 10)

    def call(self, inputs: Any) -> Any:
        labels = tf.cast(inputs[:, 0] > 0, tf.int32)
        return self.dense(inputs) + self.embedding(labels)

    def train_step(self, data: Any) -> Any:
        with tf.GradientTape(persistent=True) as tape:
            error = self(data) - data
            losses = [tf.reduce_mean(tf.square(error)), tf.reduce_mean(tf.abs(error))]
        for loss in losses:
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return {"loss": losses[0]}


def applied_twice(distributed: bool, run_eagerly: bool) -> dict[str, Any]:
    keras.utils.set_random_seed(42)
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
    results = _trained(AppliesTwice(), distributed, optimizer=optimizer, run_eagerly=run_eagerly)
    return results | {"iterations": int(optimizer.iterations)}


class MakesOptimizers(Base):
    """Its step makes the optimizer that it applies."""

    own_optimizer: Any = None

    def train_step(self, data: Any) -> Any:
        loss, gradients = self.gradients(data)
        if self.own_optimizer is None:  # TensorFlow allows new variables in the first trace only
            self.own_optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
        self.own_optimizer.apply(gradients, self.trainable_variables)
        return {"loss": loss}


def optimizer_made_in_the_step(distributed: bool, run_eagerly: bool) -> dict[str, Any]:
    keras.utils.set_random_seed(21)
    return _trained(MakesOptimizers(), distributed, run_eagerly=run_eagerly)


def optimizer_of_two_models(distributed: bool, run_eagerly: bool) -> dict[str, Any]:
    """Trains two models of the same layers in turn, the second with the first one's optimizer.

    First as it is, then as the inner one of a `LossScaleOptimizer`.
    """
    keras.utils.set_random_seed(22)
    inputs = keras.Input((10,))
    outputs = keras.layers.Dense(10)(inputs)
    models: list[Any] = [keras.Model(inputs, outputs), keras.Model(inputs, outputs)]
    optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
    scaled = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=4.0)
    if distributed:
        models = [tnt_keras.Model(model) for model in models]
    x = samples(20)[0]
    for second in (optimizer, scaled):
        for model, one, loss in zip(models, (optimizer, second), ("mse", "mae"), strict=True):
            model.compile(one, loss, run_eagerly=run_eagerly)
            model.fit(x, -x, batch_size=5, shuffle=False, verbose=0)
    return {"weights": models[0].get_weights(), "iterations": int(optimizer.iterations)}


class TensorFlowVariables(Base):
    """Trains a `tf.Variable`, which no layer holds, beside the weights of a layer."""

    def __init__(self) -> None:
        super().__init__()
        # As if only the master had read it from a file.
        self.factor = tf.Variable(tf.fill([10], 0.5 + tnt_keras.get_rank()))
        self.steps = tf.Variable(tf.zeros([], tf.bfloat16))
        self.sums = tf.Variable(tf.zeros([0]), shape=tf.TensorShape(None), trainable=False)

    def call(self, inputs: Any) -> Any:
        return self.factor * self.dense(inputs)

    def train_step(self, data: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self(data) + data))
        variables = [*self.trainable_variables, self.factor]
        gradients = tape.gradient(loss, variables)
        self.optimizer.apply_gradients(zip(gradients, variables, strict=True))
        self.steps.assign_add(1)
        self.sums.assign(tf.reduce_sum(data, axis=1))
        return {"loss": loss}


def tensorflow_variables(distributed: bool, run_eagerly: bool) -> dict[str, Any]:
    keras.utils.set_random_seed(43)
    model = TensorFlowVariables()
    results = _trained(model, distributed, run_eagerly=run_eagerly)
    held = {"factor": model.factor, "steps": model.steps, "sums": model.sums}
    return results | {name: tf.cast(value, tf.float32).numpy() for name, value in held.items()}


class AllKindsOfLogs(Base):
    """Returns results of compiled metrics in a nested dict, variables, and plain numbers."""

    def train_step(self, data: Any) -> Any:
        loss, gradients = self.gradients(data)
        before = self.optimizer.iterations.value + 0
        self.optimizer.apply(gradients, self.trainable_variables)
        outputs = self(data)
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss, sample_weight=tf.shape(data)[0])
            else:
                metric.update_state(-data, outputs)
        return {
            **{metric.name: metric.result() for metric in self.metrics},
            "rate": self.optimizer.learning_rate,
            "step": self.optimizer.iterations,
            "before": before,
            "bias": {"of layers": ({"first": self.dense.bias[0]}, tf.reduce_mean(data))},
            "constant": 0.25,
            "whole": 3,
        }


def all_kinds_of_logs(distributed: bool, run_eagerly: bool) -> dict[str, Any]:
    keras.utils.set_random_seed(44)
    model: Any = AllKindsOfLogs()
    metrics = ["mae", keras.metrics.RootMeanSquaredError()]
    if distributed:
        model = tnt_keras.Model(model)
    model.compile("sgd", metrics=metrics, run_eagerly=run_eagerly)
    kept: list[Any] = []
    keep = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: kept.append(tf.nest.flatten(logs))
    )
    data = tf.data.Dataset.from_tensor_slices(samples(21)[0]).batch(5)
    model.fit(data, verbose=0, callbacks=[keep])
    model.reset_metrics()
    return {
        "weights": [np.asarray(weight) for weight in model.get_weights()],
        "logs": [np.asarray([float(value) for value in values]) for values in kept],
    }


class NumPyLayer(keras.layers.Layer):
    """Needs the values of its inputs."""

    def build(self, shape: Any) -> None:
        self.seen = self.add_weight(shape=(), trainable=False, aggregation="sum", name="seen")

    def call(self, inputs: Any) -> Any:
        self.seen.assign_add(float(len(inputs.numpy())))
        return inputs * float(np.sign(np.abs(inputs.numpy()).sum() + 1.0))


class NumPyMetric(keras.metrics.Mean):
    """Needs the values of the predictions."""

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        return super().update_state(np.abs(y_true.numpy() - y_pred.numpy()).max(axis=-1))


def _numpy_loss(y_true: Any, y_pred: Any) -> Any:
    factor = np.where(y_true.numpy() > 0, 2.0, 1.0).astype("float32")
    return tf.reduce_mean(factor * tf.square(y_true - y_pred), axis=-1)


class NumPyStep(Base):
    """Its step needs the value of the loss, and returns it as a number."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.dropout = NumPyLayer(), keras.layers.Dropout(1e-9, seed=1)

    def call(self, inputs: Any, training: bool = False) -> Any:
        return self.dropout(self.dense(self.layer(inputs)), training=training)

    def train_step(self, data: Any) -> Any:
        x, y, _ = keras.utils.unpack_x_y_sample_weight(data)
        logs = super().train_step((x, y))
        error = self.compute_loss(x, y, self(x))
        return {**logs, "number": float(error.numpy()), "array": error.numpy()}


def numpy_in_eager_steps(distributed: bool) -> dict[str, Any]:
    keras.utils.set_random_seed(45)
    model: Any = NumPyStep()
    if distributed:
        model = tnt_keras.Model(model)
    optimizer = keras.optimizers.Adam(0.01)
    model.compile(optimizer, _numpy_loss, metrics=[NumPyMetric("own")], run_eagerly=True)
    x = samples(21)[0]
    y = np.sin(x)
    history = model.fit(x, y, batch_size=5, shuffle=False, epochs=2, verbose=0)
    return {
        "weights": [np.asarray(weight) for weight in model.get_weights()],
        "history": history.history,
        "evaluate": model.evaluate(x, y, batch_size=4, verbose=0),
        "predict": model.predict(x, batch_size=4, verbose=0),
        "iterations": float(optimizer.iterations),
    }


class FitsAsKeras(Base):
    """Names the class whose `fit` it calls."""

    def fit(self, *args: Any, **kwargs: Any) -> Any:
        return keras.Model.fit(self, *args, **kwargs)


def error_of_fit_past_ours() -> tuple[str, str]:
    """The error of a `fit` that leaves out the one of `tnt.Model`."""
    try:
        _trained(tnt_keras.Model(FitsAsKeras()), False)
    except RuntimeError as error:
        return type(error).__name__, str(error)
    return "", ""


def own_loop() -> list[str]:
    """What a loop of one's own raises in its first and second step, and one on a plain model."""
    keras.utils.set_random_seed(48)
    layers = [keras.Input((10,)), keras.layers.Dense(1)]
    distributed, plain = keras.Sequential(layers), keras.Sequential([layers[0]])
    tnt_keras.Model(distributed)
    plain.add(keras.layers.Dense(1))
    return [*_errors_of_loop(distributed, 2), *_errors_of_loop(plain, 1)]


def _errors_of_loop(model: Any, num_steps: int) -> list[str]:
    optimizer, errors = keras.optimizers.SGD(0.1), []
    for _ in range(num_steps):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(samples(7)[0]))
        weights = model.trainable_variables
        try:
            optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
            errors.append("")
        except RuntimeError as error:
            errors.append(str(error))
    return errors
