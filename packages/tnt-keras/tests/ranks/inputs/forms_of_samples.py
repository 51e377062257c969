"""The same weighted samples in all forms that Keras takes, in batches of 5 where there are any."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from classifiers import NUM_SAMPLES, samples, weights_of

BATCH_SIZE = 5
STEPS = -(-NUM_SAMPLES // BATCH_SIZE)


class Batches(keras.utils.PyDataset):
    """The batches, with a note of the rows that were made."""

    def __init__(self, **workers: Any) -> None:
        super().__init__(**workers)
        self.made: list[int] = []

    def __len__(self) -> int:
        return STEPS

    def __getitem__(self, index: int) -> tuple[np.ndarray, ...]:
        return self._rows(range(NUM_SAMPLES)[index * BATCH_SIZE : (index + 1) * BATCH_SIZE])

    def _rows(self, rows: range) -> tuple[np.ndarray, ...]:
        self.made += rows
        x, y = samples(NUM_SAMPLES)
        return x[rows], y[rows], weights_of(NUM_SAMPLES)[rows]


class BatchesWithoutEnd(Batches):
    """The batches, again and again."""

    @property
    def num_batches(self) -> None:
        return None

    def __getitem__(self, index: int) -> tuple[np.ndarray, ...]:
        return super().__getitem__(index % STEPS)


class RowsOfBatches(Batches):
    """Batches of which single rows can be made."""

    def num_samples(self, index: int) -> int:
        return min(BATCH_SIZE, NUM_SAMPLES - index * BATCH_SIZE)

    def get_rows(self, index: int, rows: slice) -> tuple[np.ndarray, ...]:
        whole = range(NUM_SAMPLES)[index * BATCH_SIZE : (index + 1) * BATCH_SIZE]
        return self._rows(whole[rows])


def generator() -> Iterator[tuple[np.ndarray, ...]]:
    """The batches, again and again."""
    batches = Batches()
    while True:
        yield from (batches[index] for index in range(STEPS))


def dataset() -> Any:
    """The samples, one by one."""
    x, y = samples(NUM_SAMPLES)
    return tf.data.Dataset.from_tensor_slices((x, y, weights_of(NUM_SAMPLES)))


def arrays() -> tuple[Any, Any, Any]:
    """The samples, all at once."""
    return (*samples(NUM_SAMPLES), weights_of(NUM_SAMPLES))
