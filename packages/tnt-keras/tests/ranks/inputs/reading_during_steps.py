"""Batches that Python code makes while a step runs, and what happens if it fails."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
from classifiers import classifier, restarted, samples

import tnt_keras

STEPS, BATCH_SIZE = 6, 4
DEADLINE_S = 30
FAILING_BATCH = 3


class Batches(keras.utils.PyDataset):
    """Batches that say when they are made; those of one rank may fail.

    Args:
        failing_rank: Rank on which a batch cannot be made, None for no such rank.
        workers: As in Keras.
    """

    def __init__(self, failing_rank: int | None = None, **workers: Any) -> None:
        super().__init__(**workers)
        self.made = [threading.Event() for _ in range(STEPS)]
        self._fails = failing_rank == tnt_keras.get_rank()

    # Processes of workers get a copy, and cannot say anything.
    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "made": None}

    def __len__(self) -> int:
        return STEPS

    def __getitem__(self, index: int) -> tuple[np.ndarray, ...]:
        return self.get_rows(index, slice(None))

    def get_rows(self, index: int, rows: slice) -> tuple[np.ndarray, ...]:
        if self._fails and index == FAILING_BATCH:
            raise OSError(f"batch {index} is damaged")
        self.made[index].set()
        return tuple(array[rows] for array in samples(BATCH_SIZE, seed=index))


class RowsOfBatches(Batches):
    """The batches, of which single rows can be made."""

    def num_samples(self, index: int) -> int:
        return BATCH_SIZE


def _generator(batches: Batches) -> Iterator[tuple[np.ndarray, ...]]:
    yield from (batches[index] for index in range(STEPS))


class _WaitForNext(keras.callbacks.Callback):
    """Makes each step last until the next batch is made, as it never is if reading waits for it."""

    def __init__(self, made: list[threading.Event]) -> None:
        super().__init__()
        self.was_made: list[bool] = []
        self._made = made

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if batch + 1 < STEPS and all(self.was_made):
            self.was_made.append(self._made[batch + 1].wait(DEADLINE_S))


KINDS: dict[str, Callable[[int | None], Batches]] = {
    "PyDataset": Batches,
    "PyDataset with workers": lambda failing: Batches(failing, workers=2, max_queue_size=3),
    "PyDataset with processes": lambda failing: Batches(
        failing, workers=2, use_multiprocessing=True
    ),
    "rows of a PyDataset": RowsOfBatches,
    "generator": Batches,
}


def batches_made_during_steps(kind: str) -> list[bool]:
    """Whether, for each step but the last, the next batch is made before it ends."""
    batches = KINDS[kind](None)
    wait = _WaitForNext(batches.made)
    _fit(kind, batches, callbacks=[wait])
    return wait.was_made


def error_in_a_batch(kind: str) -> tuple[str, str]:
    """The error of a rank if a batch cannot be made on rank 1."""
    try:
        _fit(kind, KINDS[kind](1))
    except Exception as error:
        return type(error).__name__, str(error)
    return "", "no error"


def _fit(kind: str, batches: Batches, **more: Any) -> None:
    data = _generator(batches) if kind == "generator" else batches
    steps = STEPS if kind == "generator" else None
    restarted(classifier, True).fit(data, steps_per_epoch=steps, shuffle=False, verbose=0, **more)
