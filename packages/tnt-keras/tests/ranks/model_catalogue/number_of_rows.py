"""Steps that do with many samples what they do not do with few."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from . import data
from .case import Training, wrong
from .steps import OwnStep, mean_squared_error, own_step, squared_errors


def _trained(loss_of: Any, kind: type[OwnStep] = OwnStep) -> Training:
    model = own_step(loss_of, kind=kind)
    arguments = data.of_arrays(data.features(), data.targets(), batch_size=20)
    return model, arguments


@wrong()
def largest_errors_of_a_limited_number() -> Training:
    """The six largest errors of a batch, if it has so many samples."""

    def loss_of(model: Any, x: Any, y: Any) -> Any:
        errors = squared_errors(model, x, y)
        largest, _ = tf.math.top_k(errors, tf.minimum(6, tf.shape(errors)[0]))
        return tf.reduce_mean(largest)

    return _trained(loss_of)


@wrong()
def penalty_of_the_first_rows() -> Training:
    """Predictions for the first eight rows are kept small."""

    def loss_of(model: Any, x: Any, y: Any) -> Any:
        return mean_squared_error(model, x, y) + tf.reduce_mean(model(x[:8], training=True) ** 2)

    return _trained(loss_of)


@wrong()
def median_of_large_batches() -> Training:
    """Errors are measured from their mean where there are twelve samples or more."""

    def loss_of(model: Any, x: Any, y: Any) -> Any:
        errors = squared_errors(model, x, y)
        mean = tf.reduce_mean(errors)
        return tf.cond(
            tf.shape(errors)[0] >= 12,
            lambda: tf.reduce_mean(tf.square(errors - mean)) + mean,
            lambda: mean,
        )

    return _trained(loss_of)


class CountsRows(OwnStep):
    def logs(self, x: Any, y: Any, loss: Any) -> dict[str, Any]:
        self.loss_tracker.update_state(loss)
        rows = tf.cast(tf.minimum(tf.shape(x)[0], 11), tf.float32)
        return {"loss": self.loss_tracker.result(), "rows": rows}


@wrong()
def number_of_rows_up_to_eleven() -> Training:
    """A log that counts samples up to a limit."""
    return _trained(mean_squared_error, CountsRows)


class CentresPredictions(OwnStep):
    def predict_step(self, data: Any) -> Any:
        y = self(data[0] if isinstance(data, tuple) else data, training=False)
        centre = tf.reduce_mean(y, axis=0, keepdims=True)
        return y - tf.where(tf.shape(y)[0] > 9, centre, tf.zeros_like(centre))


@wrong()
def predictions_centred_in_large_batches() -> Training:
    """Predictions that depend on the other rows where these are ten or more."""
    return _trained(mean_squared_error, CentresPredictions)


@wrong(predicts=False)
def micro_batches_of_four_rows() -> Training:
    """The largest mean error of groups of four rows."""

    def loss_of(model: Any, x: Any, y: Any) -> Any:
        errors = squared_errors(model, x, y)
        groups = tf.shape(errors)[0] // 4
        whole = tf.reshape(errors[: 4 * groups], (groups, 4))
        largest = tf.reduce_max(tf.concat([tf.reduce_mean(whole, axis=1), [0.0]], axis=0))
        return largest + tf.reduce_mean(errors)

    return _trained(loss_of)


@wrong(evaluates=False)
def fixed_number_of_rows() -> Training:
    """The code says how many samples there are."""

    def loss_of(model: Any, x: Any, y: Any) -> Any:
        return mean_squared_error(model, tf.reshape(x, (10, 6)), y)

    arguments = data.of_arrays(data.features()[:20], data.targets()[:20], batch_size=10)
    return own_step(loss_of), arguments


class ErrorsAboveMean(keras.metrics.Metric):
    def __init__(self) -> None:
        super().__init__(name="above")
        self.count = self.add_weight(shape=(), initializer="zeros", name="count")

    def update_state(self, y: Any, prediction: Any, sample_weight: Any = None) -> None:
        errors = tf.reduce_mean(tf.abs(y - prediction), axis=-1)
        is_large = tf.shape(errors)[0] >= 12
        bound = tf.where(is_large, tf.reduce_mean(errors), 0.0)
        self.count.assign_add(tf.reduce_sum(tf.cast(errors > bound, tf.float32)))

    def result(self) -> Any:
        return self.count


@wrong()
def metric_that_compares_samples_of_large_batches() -> Training:
    """A metric that counts what lies above the mean error of a batch of twelve or more."""
    keras.utils.set_random_seed(7)
    from .steps import network

    model = network()
    model.compile("sgd", "mse", metrics=[ErrorsAboveMean()])
    return model, data.of_arrays(data.features(), data.targets(), batch_size=20)


@wrong(evaluates=False)
def batches_of_one_row_are_not_normalized() -> Training:
    """The last batch has one row for each of two ranks."""

    class Normalized(keras.layers.Layer):
        def call(self, inputs: Any) -> Any:
            return tf.cond(tf.shape(inputs)[0] > 1, lambda: inputs, lambda: 0.5 * inputs)

    model = keras.Sequential([keras.Input((6,)), Normalized(), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model, data.of_arrays(data.features(), data.targets())
