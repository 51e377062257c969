"""Models, data and runs that are compared: the same code with plain Keras and with Tarantella."""

from __future__ import annotations

import dataclasses
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from classifiers import build_optimizer

import tnt_keras


@dataclasses.dataclass(frozen=True)
class Case:
    """One training run.

    Attributes:
        model: Name of a model below.
        optimizer: "sgd" (with momentum) or "adam".
        num_samples: Samples in the dataset.
        batch_size: Of the global batch.
        epochs: Epochs to train.
    """

    model: str
    optimizer: str
    num_samples: int = 50
    batch_size: int = 12
    epochs: int = 3


def run(case: Case, distributed: bool) -> dict[str, Any]:
    """Trains, evaluates and predicts; returns all results as numpy values."""
    keras.utils.set_random_seed(7)
    model = MODELS[case.model]()
    if distributed:
        model = tnt_keras.Model(model)
    model.compile(
        optimizer=_optimizer(case.optimizer),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    build_optimizer(model)
    train, test = dataset(case, seed=1), dataset(case, seed=2)
    history = model.fit(
        train.shuffle(3, seed=5), epochs=case.epochs, validation_data=test, verbose=0
    )
    return {
        "weights": [np.asarray(w) for w in model.get_weights()],
        "history": history.history,
        "evaluate": model.evaluate(test, verbose=0),
        "predict": model.predict(test, verbose=0),
    }


def dataset(case: Case, seed: int) -> Any:
    """Batches of random samples that the model of the case can take."""
    x, y = arrays(case, seed)
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(case.batch_size)


def arrays(case: Case, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The samples of `dataset`."""
    rng = np.random.default_rng(seed)
    n = case.num_samples
    if case.model == "sequence":
        tokens = rng.integers(1, 20, (n, 6))
        lengths = rng.integers(1, 7, n)
        tokens[np.arange(6) >= lengths[:, None]] = 0
        return tokens.astype("int32"), rng.integers(0, 5, (n, 6)).astype("int32")
    shape = (n, 8, 8, 1) if case.model == "cnn" else (n, 10)
    return rng.normal(size=shape).astype("float32"), rng.integers(0, 4, n).astype("int32")


def _dense() -> Any:
    return keras.Sequential(
        [
            keras.Input((10,)),
            keras.layers.Dense(16, activation="relu", kernel_regularizer="l2"),
            keras.layers.Dense(4, activation="softmax"),
        ]
    )


def _cnn() -> Any:
    inputs = keras.Input((8, 8, 1))
    x = keras.layers.Conv2D(4, 3, activation="relu")(inputs)
    x = keras.layers.MaxPooling2D()(x)
    x = keras.layers.Conv2D(8, 2, activation="relu")(x)
    x = keras.layers.Flatten()(x)
    outputs = keras.layers.Dense(4, activation="softmax")(x)
    return keras.Model(inputs, outputs)


def _sequence() -> Any:
    """One label per token; padding (token 0) is masked, so that the loss counts valid tokens."""
    inputs = keras.Input((6,), dtype="int32")
    x = keras.layers.Embedding(20, 8, mask_zero=True)(inputs)
    x = keras.layers.Dense(8, activation="tanh")(x)
    outputs = keras.layers.Dense(5, activation="softmax")(x)
    return keras.Model(inputs, outputs)


def _optimizer(name: str) -> Any:
    if name == "adam":
        return keras.optimizers.Adam(1e-3)
    return keras.optimizers.SGD(0.05, momentum=0.9)


MODELS = {"dense": _dense, "cnn": _cnn, "sequence": _sequence}
