"""Input that gives others each time it is read: one rank reads it as plain Keras does."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from classifiers import classifier, restarted, results_of, samples

SIZES = (5, 3, 1, 6, 4)  # of batches, in turn; some ranks have no sample of the third
STEPS = len(SIZES)


def _noise() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    step = 0
    while True:
        x, y = samples(SIZES[step % STEPS], seed=step)
        yield x + np.random.normal(size=x.shape).astype("float32"), y
        step += 1


def _noise_of_one_pass() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    noise = _noise()
    yield from (next(noise) for _ in np.random.permutation(STEPS))


class Noise(keras.utils.PyDataset):
    """Batches with noise, drawn anew for each epoch and each batch."""

    def __init__(self, length: int | None = STEPS, **workers: Any) -> None:
        super().__init__(**workers)
        self.order = np.arange(STEPS)
        self.length = length
        self.made: dict[int, Any] = {}

    @property
    def num_batches(self) -> int | None:
        return self.length

    def __getitem__(self, index: int) -> Any:
        x, y = samples(SIZES[self.order[index % STEPS]], seed=index)
        self.made[index] = x + np.random.normal(size=x.shape).astype("float32"), y
        return self.made[index]

    def on_epoch_end(self) -> None:
        if self.length is not None:  # else the next batches are being made
            self.order = np.random.permutation(STEPS)


class WeightedNoise(Noise):
    """The batches with sample weights."""

    def __getitem__(self, index: int) -> Any:
        x, y = super().__getitem__(index)
        return x, y, np.random.uniform(0.1, 3.0, len(y)).astype("float32")


def _draw(x: np.ndarray) -> np.ndarray:
    return x + np.random.normal(size=x.shape).astype("float32")


def _drawn_in_a_dataset() -> tf.data.Dataset:
    def draw(x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return tf.ensure_shape(tf.numpy_function(_draw, [x], tf.float32), x.shape), y

    return tf.data.Dataset.from_tensor_slices(samples(17)).map(draw).batch(5)


def _dataset_of_a_generator() -> tf.data.Dataset:
    spec = (tf.TensorSpec([None, 10]), tf.TensorSpec([None], tf.int32))
    return tf.data.Dataset.from_generator(_noise_of_one_pass, output_signature=spec)


class Slowly(keras.callbacks.Callback):
    """Waits after each step, so that what is read ahead is all there is room for."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        time.sleep(0.1)

    on_test_batch_end = on_train_batch_end


FITS: dict[str, Callable[..., Any]] = {
    "generator without end": lambda fit, **more: fit(_noise(), steps_per_epoch=4, **more),
    "generator": lambda fit, **more: fit(_noise_of_one_pass(), **(more | {"epochs": 1})),
    "PyDataset": lambda fit, **more: fit(Noise(), **more),
    "PyDataset without end": lambda fit, **more: fit(Noise(None), steps_per_epoch=3, **more),
    "class weights": lambda fit, **more: fit(Noise(), class_weight={0: 2.0, 2: 0.3}, **more),
    "sample weights": lambda fit, **more: fit(WeightedNoise(), shuffle=False, **more),
    "numpy_function": lambda fit, **more: fit(_drawn_in_a_dataset(), **more),
    "from_generator": lambda fit, **more: fit(
        _dataset_of_a_generator(), steps_per_epoch=STEPS, **(more | {"epochs": 1})
    ),
    "validation by a generator": lambda fit, **more: fit(
        Noise(),
        validation_data=_noise(),
        validation_steps=3,
        callbacks=[Slowly()],
        **(more | {"epochs": 3}),
    ),
}


def train(distributed: bool, kind: str) -> dict[str, Any]:
    """Trains on an input that draws from the generators of Python and NumPy."""
    model = restarted(classifier, distributed)
    np.random.seed(1)
    random.seed(2)
    return results_of(model, FITS[kind](model.fit, epochs=2, verbose=0))
