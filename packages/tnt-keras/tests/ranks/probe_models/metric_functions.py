"""Functions of the whole batch as metric or loss, and losses of Keras that are such."""

from __future__ import annotations

from typing import Any

import keras

from . import data
from .case import Training, wrong
from .metrics import binary, with_metrics


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
