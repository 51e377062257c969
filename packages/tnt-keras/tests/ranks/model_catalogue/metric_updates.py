"""Metrics that a step of the user's own updates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from . import data
from .case import Training, right, wrong
from .steps import OwnStep, mean_squared_error, own_step, squared_errors


def _updating(update: Callable[[Any, Any], Any], metric: Any) -> Training:
    """Return a model with one more metric, which is updated from the batch's errors."""

    class Updating(OwnStep):
        def __init__(self, inner: Any, loss_of: Any) -> None:
            super().__init__(inner, loss_of)
            self.more = metric

        @property
        def metrics(self) -> list[Any]:
            return [self.loss_tracker, self.more]

        def logs(self, x: Any, y: Any, loss: Any) -> dict[str, Any]:
            update(self.more, squared_errors(self, x, y))
            return super().logs(x, y, loss) | {"more": self.more.result()}

    model = own_step(mean_squared_error, kind=Updating)
    return model, data.of_arrays(data.features(), data.targets())


@wrong()
def result_that_is_read_before_the_update() -> Training:
    """The log of a step is the result of those before it."""

    class Late(OwnStep):
        def logs(self, x: Any, y: Any, loss: Any) -> dict[str, Any]:
            result = self.loss_tracker.result()
            self.loss_tracker.update_state(loss)
            return {"loss": result}

    model = own_step(mean_squared_error, kind=Late)
    return model, data.of_arrays(data.features(), data.targets())


@wrong()
def result_inside_of_the_step() -> Training:
    """The loss is divided by its running mean."""

    class Scaled(OwnStep):
        def train_step(self, batch: Any) -> Any:
            x, y = batch
            self.loss_tracker.update_state(squared_errors(self, x, y))
            with tf.GradientTape() as tape:
                loss = mean_squared_error(self, x, y) / (self.loss_tracker.result() + 0.1)
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
            return {"loss": self.loss_tracker.result()}

    model = own_step(mean_squared_error, kind=Scaled)
    return model, data.of_arrays(data.features(), data.targets())


@wrong()
def mean_of_stacked_means() -> Training:
    """Two values of the batch in one update: neither scalars nor samples."""

    def update(metric: Any, errors: Any) -> None:
        metric.update_state(tf.stack([tf.reduce_mean(errors), tf.reduce_mean(tf.sqrt(errors))]))

    return _updating(update, keras.metrics.Mean(name="more"))


@wrong()
def mean_with_sample_weight_of_one() -> Training:
    def update(metric: Any, errors: Any) -> None:
        metric.update_state(tf.reduce_mean(errors), sample_weight=1.0)

    return _updating(update, keras.metrics.Mean(name="more"))


@wrong()
def sum_of_batch_means() -> Training:
    def update(metric: Any, errors: Any) -> None:
        metric.update_state(tf.reduce_mean(errors))

    return _updating(update, keras.metrics.Sum(name="more"))


@wrong()
def mean_of_batch_sums() -> Training:
    """A scalar, but a sum: keras.io's trackers of reconstruction losses."""

    def update(metric: Any, errors: Any) -> None:
        metric.update_state(tf.reduce_sum(errors))

    return _updating(update, keras.metrics.Mean(name="more"))


class Keeping(keras.metrics.Metric):
    """A metric of one variable, which `new` computes from its value and the errors."""

    def __init__(self, new: Callable[[Any, Any], Any]) -> None:
        super().__init__(name="more")
        self.new = new
        self.kept = self.add_variable((), initializer="zeros", name="kept")

    def update_state(self, errors: Any) -> None:
        self.kept.assign(self.new(self.kept.value, errors))

    def result(self) -> Any:
        return self.kept.value


def _keeping(new: Callable[[Any, Any], Any]) -> Training:
    return _updating(lambda metric, errors: metric.update_state(errors), Keeping(new))


@wrong()
def largest_error_so_far() -> Training:
    return _keeping(lambda kept, errors: tf.maximum(kept, tf.reduce_max(errors)))


@wrong()
def mean_error_of_last_batch() -> Training:
    return _keeping(lambda kept, errors: tf.reduce_mean(errors))


@wrong()
def moving_mean_of_errors() -> Training:
    return _keeping(lambda kept, errors: 0.8 * kept + 0.2 * tf.reduce_mean(errors))


@wrong()
def number_of_batches() -> Training:
    return _keeping(lambda kept, errors: kept + 1.0)


@wrong()
def sum_of_batch_deviations() -> Training:
    return _keeping(lambda kept, errors: kept + tf.math.reduce_std(errors))


@wrong(evaluates=False)
def metric_that_the_model_does_not_know() -> Training:
    """In a tuple of a closure: no attribute of the model."""
    hidden = keras.metrics.RootMeanSquaredError(name="hidden")

    class Hiding(OwnStep):
        def logs(self, x: Any, y: Any, loss: Any) -> dict[str, Any]:
            hidden.update_state(y, self(x))
            return super().logs(x, y, loss) | {"hidden": hidden.result()}

    model = own_step(mean_squared_error, kind=Hiding)
    return model, data.of_arrays(data.features(), data.targets())


@right()
def means_of_samples_and_of_batches() -> Training:
    def update(metric: Any, errors: Any) -> None:
        metric.update_state(errors)
        metric.update_state(tf.reduce_mean(errors))

    return _updating(update, keras.metrics.Mean(name="more"))


@right()
def mean_weighted_by_rows() -> Training:
    def update(metric: Any, errors: Any) -> None:
        metric.update_state(tf.reduce_mean(errors), sample_weight=tf.shape(errors)[0])

    return _updating(update, keras.metrics.Mean(name="more"))


@right()
def sum_of_errors() -> Training:
    return _updating(
        lambda metric, errors: metric.update_state(errors), keras.metrics.Sum(name="more")
    )
