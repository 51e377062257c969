"""Inputs that ranks may not share as they should: training goes on, with a warning."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from classifiers import classifier, restarted, samples
from forms_of_samples import BATCH_SIZE, STEPS, Batches, RowsOfBatches, dataset
from logged import logged

import tnt_keras


def warnings_of(case: str) -> list[str]:
    """Messages of a run whose input ranks may not share as they should."""
    with logged(logging.WARNING) as messages:
        SUSPICIOUS[case]()
    return messages


class RandomBatches(Batches):
    """Batches with noise that nothing seeds."""

    def _rows(self, rows: range) -> tuple[np.ndarray, ...]:
        x, *others = super()._rows(rows)
        return x + np.random.normal(size=x.shape).astype("float32"), *others


def _fit_with_another_learning_rate() -> None:
    model = restarted(classifier, True)
    model.optimizer.learning_rate = 0.125 * (1 + tnt_keras.get_rank())
    model.fit(Batches(), shuffle=False, verbose=0)
    assert float(model.optimizer.learning_rate) == 0.125


def _fit_own_samples() -> None:
    x, y = samples(4)
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(2)
    model = restarted(classifier, True)
    model.fit(data, verbose=0, tnt_distribute_dataset=False, verify_inputs=True)


def _fit_twice(data: Any) -> None:
    model = restarted(classifier, True)
    for _ in range(2):
        model.fit(data, verbose=0, shuffle=False)


SUSPICIOUS: dict[str, Callable[[], Any]] = {
    "another learning rate": _fit_with_another_learning_rate,
    "random numbers": lambda: restarted(classifier, True).fit(
        RandomBatches(), shuffle=False, verbose=0
    ),
    "unknown length": lambda: _fit_twice(dataset().filter(lambda *_: True).batch(BATCH_SIZE)),
    "generator": lambda: restarted(classifier, True).fit(
        (Batches()[index] for index in range(STEPS)), shuffle=False, verbose=0
    ),
    "own samples": _fit_own_samples,
    "rows of a PyDataset": lambda: restarted(classifier, True).fit(
        RowsOfBatches(), shuffle=False, verbose=0, verify_inputs=True
    ),
    "nothing": lambda: restarted(classifier, True).fit(Batches(), shuffle=False, verbose=0),
}
