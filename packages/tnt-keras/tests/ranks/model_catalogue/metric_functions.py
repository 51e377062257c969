"""Functions of the whole batch as metric or loss, and losses of Keras that are such."""

from __future__ import annotations

from typing import Any

import keras

from . import data
from .case import Training, right, wrong
from .metrics import binary, with_metrics


@wrong()
def root_mean_square_as_function() -> Training:
    def rmse(y: Any, p: Any) -> Any:
        return keras.ops.sqrt(keras.ops.mean((y - p) ** 2))

    return with_metrics(rmse)


@wrong()
def determination_as_function() -> Training:
    def r2(y: Any, p: Any) -> Any:
        residual = keras.ops.sum((y - p) ** 2)
        return 1.0 - residual / (keras.ops.sum((y - keras.ops.mean(y)) ** 2) + 1e-3)

    return with_metrics(r2)


@wrong()
def f1_as_function() -> Training:
    """As in thousands of notebooks."""

    def f1(y: Any, p: Any) -> Any:
        hits = keras.ops.sum(y * keras.ops.round(p))
        precision = hits / (keras.ops.sum(keras.ops.round(p)) + 1e-3)
        recall = hits / (keras.ops.sum(y) + 1e-3)
        return 2.0 * precision * recall / (precision + recall + 1e-3)

    return binary(f1)


@wrong()
def correlation_as_function() -> Training:
    def correlation(y: Any, p: Any) -> Any:
        y, p = y - keras.ops.mean(y), p - keras.ops.mean(p)
        return keras.ops.sum(y * p) / keras.ops.sqrt(
            keras.ops.sum(y**2) * keras.ops.sum(p**2) + 1e-3
        )

    return with_metrics(correlation)


@wrong()
def root_mean_square_as_loss() -> Training:
    def rmse(y: Any, p: Any) -> Any:
        return keras.ops.sqrt(keras.ops.mean((y - p) ** 2))

    return with_metrics(loss=rmse)


@wrong()
def dice_of_the_whole_batch() -> Training:
    """keras.losses.Dice sums over the batch before it divides."""
    model = keras.Sequential(
        [keras.Input((8, 8, 1)), keras.layers.Conv2D(1, 3, padding="same", activation="sigmoid")]
    )
    model.compile(keras.optimizers.SGD(0.3), keras.losses.Dice())
    images = data.images()
    return model, data.of_arrays(images, (images > 0.6).astype("float32"))


@wrong()
def tversky_of_the_whole_batch() -> Training:
    model = keras.Sequential(
        [keras.Input((8, 8, 1)), keras.layers.Conv2D(1, 3, padding="same", activation="sigmoid")]
    )
    model.compile(keras.optimizers.SGD(0.3), keras.losses.Tversky(alpha=0.3, beta=0.7))
    images = data.images()
    return model, data.of_arrays(images, (images > 0.6).astype("float32"))


@right()
def metric_function_of_samples() -> Training:
    def largest(y: Any, p: Any) -> Any:
        return keras.ops.max(keras.ops.abs(y - p), axis=-1)

    return with_metrics(largest, outputs=2)
