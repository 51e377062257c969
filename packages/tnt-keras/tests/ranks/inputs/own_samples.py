"""Samples that each rank brings by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from classifiers import classifier, restarted, samples
from kinds_of_input import results

import tnt_data
import tnt_keras


def own_samples(distributed: bool, kind: str = "dataset") -> dict[str, Any]:
    """Trains and evaluates on batches of 6 of 24 samples, which ranks have shared by themselves."""
    x, y = samples(24)
    batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(6)
    model = restarted(classifier, distributed)
    if not distributed:
        history = model.fit(batches, epochs=2, verbose=0, validation_data=batches)
        return results(model, history, model.evaluate(batches, verbose=0))
    rank, size = tnt_keras.get_rank(), tnt_keras.get_size()
    parts: dict[str, Callable[[], Any]] = {
        "dataset": lambda: batches.unbatch().shard(size, rank).batch(6 // size),
        "generator": lambda: _generated(x[rank::size], y[rank::size], 6 // size),
        "PyDataset": lambda: OwnBatches(x[rank::size], y[rank::size], 6 // size),
        "micro-batches": lambda: tnt_data.distribute(batches, rank, size),
    }
    part = parts[kind]
    manual = {"tnt_distribute_dataset": False}
    history = model.fit(
        part(),
        epochs=2,
        steps_per_epoch=4 if kind == "generator" else None,
        shuffle=False,
        verbose=0,
        validation_data=part() if kind != "generator" else parts["dataset"](),
        tnt_distribute_validation_dataset=False,
        **manual,
    )
    return results(model, history, model.evaluate(part(), steps=4, verbose=0, **manual))


class OwnBatches(keras.utils.PyDataset):
    """Batches of some samples."""

    def __init__(self, x: np.ndarray, y: np.ndarray, batch_size: int) -> None:
        super().__init__()
        self._samples, self._batch_size = (x, y), batch_size

    def __len__(self) -> int:
        return len(self._samples[0]) // self._batch_size

    def __getitem__(self, index: int) -> tuple[np.ndarray, ...]:
        begin = index * self._batch_size
        return tuple(array[begin : begin + self._batch_size] for array in self._samples)


def _generated(x: np.ndarray, y: np.ndarray, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    while True:
        for begin in range(0, len(x), size):
            yield x[begin : begin + size], y[begin : begin + size]


def own_predictions() -> tuple[np.ndarray, np.ndarray]:
    """Predictions for as many samples as this rank likes, and those of plain Keras for them."""
    x, _ = samples(3 + 4 * tnt_keras.get_rank())
    data = tf.data.Dataset.from_tensor_slices(x).batch(2)
    own = restarted(classifier, True).predict(data, verbose=0, tnt_distribute_dataset=False)
    return own, restarted(classifier, False).predict(x, verbose=0)
