"""Subclasses of `keras.metrics.Metric`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from . import data
from .case import Training, right, wrong
from .metrics import with_metrics
from .steps import network


class _OfErrors(keras.metrics.Metric):
    """Sums what a function makes of the errors; with a variable that begins with some value."""

    def __init__(self, begin: float = 0.0, name: str = "of_errors") -> None:
        super().__init__(name=name)
        self.begin = begin
        self.value = self.add_weight(
            name="value", shape=(), initializer=keras.initializers.Constant(begin)
        )

    def update_state(self, y: Any, p: Any, sample_weight: Any = None) -> None:
        self.update(tf.reduce_mean(tf.abs(y - p), axis=-1))

    def update(self, errors: Any) -> None:
        raise NotImplementedError

    def result(self) -> Any:
        return self.value + 0.0

    def reset_state(self) -> None:
        self.value.assign(self.begin)


class _Smallest(_OfErrors):
    def update(self, errors: Any) -> None:
        self.value.assign(tf.minimum(self.value, tf.reduce_min(errors)))


@wrong()
def smallest_error_after_a_large_number() -> Training:
    return with_metrics(_Smallest(1e9))


@wrong()
def smallest_error_after_infinity() -> Training:
    return with_metrics(_Smallest(float("inf")))


@wrong()
def metric_with_a_threshold_in_a_variable() -> Training:
    """A constant among the states, which are set to zero in a step of the ranks otherwise."""

    class Above(_OfErrors):
        def __init__(self) -> None:
            super().__init__()
            self.threshold = self.add_weight(
                name="threshold", shape=(), initializer=keras.initializers.Constant(0.7)
            )

        def update(self, errors: Any) -> None:
            self.value.assign_add(tf.reduce_sum(tf.cast(errors > self.threshold, tf.float32)))

    return with_metrics(Above())


@wrong()
def metric_with_a_list_in_python() -> Training:
    class Kept(_OfErrors):
        def update(self, errors: Any) -> None:
            self.errors.append(float(tf.reduce_mean(errors)))

        def result(self) -> Any:
            return float(np.mean(self.errors)) if self.errors else 0.0

        def reset_state(self) -> None:
            self.errors: list[float] = []

    metric = Kept()
    metric.reset_state()
    return with_metrics(metric, run_eagerly=True)


class _MeanAndNumber(keras.metrics.Metric):
    """Gives two results."""

    def __init__(self) -> None:
        super().__init__(name="errors")
        self.total = self.add_weight(shape=(), initializer="zeros")
        self.count = self.add_weight(shape=(), initializer="zeros")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.total.assign_add(tf.reduce_sum(tf.abs(y_true - y_pred)))
        self.count.assign_add(tf.cast(tf.shape(y_true)[0], tf.float32))

    def result(self) -> Any:
        return {"mean": self.total / self.count, "number": self.count}


@right()
def metric_of_two_results() -> Training:
    return with_metrics(_MeanAndNumber())


class _Rows(keras.metrics.Metric):
    """Counts rows; its result is its variable, as that of Keras or as TensorFlow's."""

    def __init__(self, of_tensorflow: bool = False) -> None:
        super().__init__(name="tf_rows" if of_tensorflow else "rows")
        self.number = self.add_weight(name="number", shape=(), initializer="zeros")
        self.of_tensorflow = of_tensorflow

    def update_state(self, y: Any, p: Any, sample_weight: Any = None) -> None:
        self.number.assign_add(tf.cast(tf.shape(y)[0], tf.float32))

    def result(self) -> Any:
        return self.number.value if self.of_tensorflow else self.number


def _with_another_log(log_of: Callable[[Any, Any], Any]) -> Training:
    """Return a model that returns one more log, made of the logs of Keras' step and `x`."""

    class More(keras.Model):
        def train_step(self, batch: Any) -> Any:
            logs = super().train_step(batch)
            return {**logs, "more": log_of(logs, batch[0])}

    inner = network()
    model = More(inner.inputs, inner.outputs)
    model.compile(keras.optimizers.SGD(0.1), "mse", metrics=[_Rows(), _Rows(of_tensorflow=True)])
    return model, data.of_arrays(data.features(), data.targets())


@right()
def result_that_is_a_variable_beside_a_log() -> Training:
    return _with_another_log(lambda logs, x: tf.reduce_mean(x))


@wrong()
def log_of_a_result_that_is_a_variable() -> Training:
    return _with_another_log(lambda logs, x: tf.sqrt(logs["rows"]) + logs["tf_rows"])
