"""Metrics of users' own, and ways to update those of Keras."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from . import data
from .case import Training, right, wrong
from .steps import OwnStep, mean_squared_error, network, own_step, squared_errors


def _with_metrics(*metrics: Any, outputs: int = 1, **compile_arguments: Any) -> Training:
    model = network(outputs)
    arguments = {"optimizer": keras.optimizers.SGD(0.1), "loss": "mse", "metrics": list(metrics)}
    model.compile(**arguments | compile_arguments)
    return model, data.of_arrays(data.features(), data.targets(outputs))


def _binary(*metrics: Any) -> Training:
    model = network(1, activation="sigmoid")
    model.compile(keras.optimizers.SGD(0.1), "binary_crossentropy", metrics=list(metrics))
    return model, data.of_arrays(data.features(), data.bits())


def _classes(*metrics: Any, sparse: bool = True) -> Training:
    model = network(3, activation="softmax")
    loss = keras.losses.get(("sparse_" if sparse else "") + "categorical_crossentropy")
    model.compile(keras.optimizers.SGD(0.1), loss, metrics=list(metrics))
    return model, data.of_arrays(data.features(), data.labels() if sparse else data.one_hot())


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


@wrong("refused")
def smallest_error_after_a_large_number() -> Training:
    return _with_metrics(_Smallest(1e9))


@wrong("refused")
def smallest_error_after_infinity() -> Training:
    return _with_metrics(_Smallest(float("inf")))


@wrong("exact")
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

    return _with_metrics(Above())


@wrong("refused")
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
    return _with_metrics(metric, run_eagerly=True)


@wrong("refused")
def result_that_is_read_before_the_update() -> Training:
    """The log of a step is the result of those before it."""

    class Late(OwnStep):
        def logs(self, x: Any, y: Any, loss: Any) -> dict[str, Any]:
            result = self.loss_tracker.result()
            self.loss_tracker.update_state(loss)
            return {"loss": result}

    model = own_step(mean_squared_error, kind=Late)
    return model, data.of_arrays(data.features(), data.targets())


@wrong("refused")
def root_mean_square_as_function() -> Training:
    def rmse(y: Any, p: Any) -> Any:
        return keras.ops.sqrt(keras.ops.mean((y - p) ** 2))

    return _with_metrics(rmse)


@wrong("refused")
def determination_as_function() -> Training:
    def r2(y: Any, p: Any) -> Any:
        residual = keras.ops.sum((y - p) ** 2)
        return 1.0 - residual / (keras.ops.sum((y - keras.ops.mean(y)) ** 2) + 1e-3)

    return _with_metrics(r2)


@wrong("refused")
def f1_as_function() -> Training:
    """As in thousands of notebooks."""

    def f1(y: Any, p: Any) -> Any:
        hits = keras.ops.sum(y * keras.ops.round(p))
        precision = hits / (keras.ops.sum(keras.ops.round(p)) + 1e-3)
        recall = hits / (keras.ops.sum(y) + 1e-3)
        return 2.0 * precision * recall / (precision + recall + 1e-3)

    return _binary(f1)


@wrong("refused")
def correlation_as_function() -> Training:
    def correlation(y: Any, p: Any) -> Any:
        y, p = y - keras.ops.mean(y), p - keras.ops.mean(p)
        return keras.ops.sum(y * p) / keras.ops.sqrt(
            keras.ops.sum(y**2) * keras.ops.sum(p**2) + 1e-3
        )

    return _with_metrics(correlation)


@wrong("refused")
def root_mean_square_as_loss() -> Training:
    def rmse(y: Any, p: Any) -> Any:
        return keras.ops.sqrt(keras.ops.mean((y - p) ** 2))

    return _with_metrics(loss=rmse)


@wrong("refused")
def dice_of_the_whole_batch() -> Training:
    """keras.losses.Dice sums over the batch before it divides."""
    model = keras.Sequential(
        [keras.Input((8, 8, 1)), keras.layers.Conv2D(1, 3, padding="same", activation="sigmoid")]
    )
    model.compile(keras.optimizers.SGD(0.3), keras.losses.Dice())
    images = data.images()
    return model, data.of_arrays(images, (images > 0.6).astype("float32"))


@wrong("refused")
def tversky_of_the_whole_batch() -> Training:
    model = keras.Sequential(
        [keras.Input((8, 8, 1)), keras.layers.Conv2D(1, 3, padding="same", activation="sigmoid")]
    )
    model.compile(keras.optimizers.SGD(0.3), keras.losses.Tversky(alpha=0.3, beta=0.7))
    images = data.images()
    return model, data.of_arrays(images, (images > 0.6).astype("float32"))


@wrong("refused")
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


@wrong("exact")
def mean_of_stacked_means() -> Training:
    """Two values of the batch in one update: neither scalars nor samples."""

    def update(metric: Any, errors: Any) -> None:
        metric.update_state(tf.stack([tf.reduce_mean(errors), tf.reduce_mean(tf.sqrt(errors))]))

    return _updating(update, keras.metrics.Mean(name="more"))


@wrong("exact")
def mean_with_sample_weight_of_one() -> Training:
    def update(metric: Any, errors: Any) -> None:
        metric.update_state(tf.reduce_mean(errors), sample_weight=1.0)

    return _updating(update, keras.metrics.Mean(name="more"))


@wrong("exact")
def sum_of_batch_means() -> Training:
    def update(metric: Any, errors: Any) -> None:
        metric.update_state(tf.reduce_mean(errors))

    return _updating(update, keras.metrics.Sum(name="more"))


@wrong("exact")
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


@wrong("exact")
def largest_error_so_far() -> Training:
    return _keeping(lambda kept, errors: tf.maximum(kept, tf.reduce_max(errors)))


@wrong("exact")
def mean_error_of_last_batch() -> Training:
    return _keeping(lambda kept, errors: tf.reduce_mean(errors))


@wrong("exact")
def moving_mean_of_errors() -> Training:
    return _keeping(lambda kept, errors: 0.8 * kept + 0.2 * tf.reduce_mean(errors))


@wrong("exact")
def number_of_batches() -> Training:
    return _keeping(lambda kept, errors: kept + 1.0)


@wrong("refused")
def sum_of_batch_deviations() -> Training:
    return _keeping(lambda kept, errors: kept + tf.math.reduce_std(errors))


@wrong("refused", evaluates=False)
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
    return _with_metrics(_MeanAndNumber())


@right()
def regression_metrics() -> Training:
    names = ["RootMeanSquaredError", "R2Score", "LogCoshError", "MeanAbsolutePercentageError"]
    names += ["CosineSimilarity", "PearsonCorrelation", "ConcordanceCorrelation"]
    return _with_metrics(*(getattr(keras.metrics, name)() for name in names), outputs=2)


@right()
def metric_function_of_samples() -> Training:
    def largest(y: Any, p: Any) -> Any:
        return keras.ops.max(keras.ops.abs(y - p), axis=-1)

    return _with_metrics(largest, outputs=2)


@right()
def areas_under_curves() -> Training:
    return _binary(
        keras.metrics.AUC(),
        keras.metrics.AUC(curve="PR", name="pr"),
        keras.metrics.SensitivityAtSpecificity(0.6),
        keras.metrics.RecallAtPrecision(0.6),
    )


@right()
def confusion_counts() -> Training:
    names = ["TruePositives", "FalseNegatives", "Precision", "Recall", "BinaryAccuracy"]
    return _binary(*(getattr(keras.metrics, name)() for name in names), "accuracy")


@right()
def f_scores() -> Training:
    return _classes(
        keras.metrics.F1Score(average="macro"),
        keras.metrics.FBetaScore(beta=2.0, average="weighted"),
        "accuracy",
        sparse=False,
    )


@right()
def intersection_over_union() -> Training:
    return _classes(
        keras.metrics.MeanIoU(3, sparse_y_pred=False),
        keras.metrics.IoU(3, [1], sparse_y_pred=False),
    )


@right()
def top_two_of_three() -> Training:
    return _classes(keras.metrics.SparseTopKCategoricalAccuracy(2), "sparse_categorical_accuracy")


@right()
def weighted_metrics() -> Training:
    model = network(3, activation="softmax")
    model.compile(
        keras.optimizers.SGD(0.1),
        "sparse_categorical_crossentropy",
        metrics=["accuracy"],
        weighted_metrics=["accuracy"],
    )
    arrays = data.of_arrays(data.features(), data.labels(), sample_weight=data.sample_weights())
    return model, arrays
