"""Metrics of Keras."""

from __future__ import annotations

from typing import Any

import keras

from . import data
from .case import Training, right
from .steps import network


def with_metrics(*metrics: Any, outputs: int = 1, **compile_arguments: Any) -> Training:
    """Return a regression with these metrics."""
    model = network(outputs)
    arguments = {"optimizer": keras.optimizers.SGD(0.1), "loss": "mse", "metrics": list(metrics)}
    model.compile(**arguments | compile_arguments)
    return model, data.of_arrays(data.features(), data.targets(outputs))


def binary(*metrics: Any) -> Training:
    """Return a classification of bits with these metrics."""
    model = network(1, activation="sigmoid")
    model.compile(keras.optimizers.SGD(0.1), "binary_crossentropy", metrics=list(metrics))
    return model, data.of_arrays(data.features(), data.bits())


def classes(*metrics: Any, sparse: bool = True) -> Training:
    """Return a classification of three classes with these metrics."""
    model = network(3, activation="softmax")
    loss = keras.losses.get(("sparse_" if sparse else "") + "categorical_crossentropy")
    model.compile(keras.optimizers.SGD(0.1), loss, metrics=list(metrics))
    return model, data.of_arrays(data.features(), data.labels() if sparse else data.one_hot())


@right()
def regression_metrics() -> Training:
    names = ["RootMeanSquaredError", "R2Score", "LogCoshError", "MeanAbsolutePercentageError"]
    names += ["CosineSimilarity", "PearsonCorrelation", "ConcordanceCorrelation"]
    return with_metrics(*(getattr(keras.metrics, name)() for name in names), outputs=2)


@right()
def areas_under_curves() -> Training:
    return binary(
        keras.metrics.AUC(),
        keras.metrics.AUC(curve="PR", name="pr"),
        keras.metrics.SensitivityAtSpecificity(0.6),
        keras.metrics.RecallAtPrecision(0.6),
    )


@right()
def confusion_counts() -> Training:
    names = ["TruePositives", "FalseNegatives", "Precision", "Recall", "BinaryAccuracy"]
    return binary(*(getattr(keras.metrics, name)() for name in names), "accuracy")


@right()
def f_scores() -> Training:
    return classes(
        keras.metrics.F1Score(average="macro"),
        keras.metrics.FBetaScore(beta=2.0, average="weighted"),
        "accuracy",
        sparse=False,
    )


@right()
def intersection_over_union() -> Training:
    return classes(
        keras.metrics.MeanIoU(3, sparse_y_pred=False),
        keras.metrics.IoU(3, [1], sparse_y_pred=False),
    )


@right()
def top_two_of_three() -> Training:
    return classes(keras.metrics.SparseTopKCategoricalAccuracy(2), "sparse_categorical_accuracy")


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
