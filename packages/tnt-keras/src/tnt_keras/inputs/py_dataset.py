"""`keras.utils.PyDataset` and generators: what kind they are, and one order on all ranks."""

from __future__ import annotations

import random
import types
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tnt_data
from tnt_keras.inputs.seed import SEED
from tnt_keras.keras_hooks.private import in_attributes, is_loader

_DRAWING = (
    random.Random,
    np.random.Generator,
    np.random.RandomState,
    tf.random.Generator,
    keras.random.SeedGenerator,
    keras.layers.Layer,
)
"""What draws random numbers, and goes on from call to call."""


def makes_batches(data: Any) -> bool:
    """Return whether `data` makes batches by Python code, in a way that Keras can read. Local."""
    return isinstance(data, (keras.utils.PyDataset, types.GeneratorType)) or is_loader(data)


def makes_rows(data: Any) -> bool:
    """Return whether `data` can make some rows of a batch without the others. Local."""
    return callable(getattr(data, "get_rows", None)) and callable(
        getattr(data, "num_samples", None)
    )


def differs_when_read_again(data: Any, steps: int | None, *, is_validation: bool) -> bool:
    """Return whether another reading of `data`, or one on another rank, may give others. Local.

    A generator that validates again and again gives its first two batches each time, and goes on
    from where Keras has read ahead to, which no two ranks do to the same batch.
    """
    if isinstance(data, keras.utils.PyDataset):
        return draws_random_numbers(data) or (
            _is_read_in_parallel(data) and bool(in_attributes(data, _DRAWING))
        )
    if isinstance(data, types.GeneratorType):
        return draws_random_numbers(data) or (is_validation and steps is not None)
    return True  # a loader, whose workers and transformations nothing tells of


def _is_read_in_parallel(data: keras.utils.PyDataset) -> bool:
    return data.workers > 1 or (data.workers > 0 and data.use_multiprocessing)


def draws_random_numbers(data: Any) -> bool:
    """Return whether the code of `data` draws random numbers that nothing in it seeds. Local.

    Nor does a seed that is None, in an attribute with that word in its name.
    """
    if isinstance(data, types.GeneratorType):
        return tnt_data.draws_random_numbers(data)
    if any("seed" in name and value is None for name, value in vars(data).items()):
        return True
    classes = type(data).__mro__
    own = classes[: classes.index(keras.utils.PyDataset)]
    methods = [value for cls in own for value in vars(cls).values() if callable(value)]
    return tnt_data.draws_random_numbers(*methods)


def batches_are_independent(data: Any) -> bool:
    """Return whether making a batch leaves no trace in those that are made later. Local.

    That is so if the code of `data` draws no random numbers, or seeds them each time, and if it
    holds no generator of them, be it in a list or dictionary. A generator of Python always goes on.
    """
    if not isinstance(data, keras.utils.PyDataset) or draws_random_numbers(data):
        return False
    return not in_attributes(data, _DRAWING)


def with_same_order(data: Any, shuffle: Any, seed: int = SEED) -> Any:
    """Return a `PyDataset` in the order that it has on several ranks. Local."""
    if not isinstance(data, keras.utils.PyDataset):
        return data
    return SameOrderPyDataset(data, bool(shuffle), seed)


class SameOrderPyDataset(keras.utils.PyDataset):
    """A `PyDataset` whose batches come in the same order on all ranks.

    Keras shuffles the batches of a `PyDataset` by the random numbers of Python, which differ from
    process to process. Workers and their processes are those of the original; without end there is
    no shuffle.
    """

    def __init__(self, batches: keras.utils.PyDataset, shuffle: bool, seed: int = SEED) -> None:
        super().__init__(
            workers=batches.workers,
            use_multiprocessing=batches.use_multiprocessing,
            max_queue_size=batches.max_queue_size,
        )
        self._batches = batches
        self._shuffle = shuffle and batches.num_batches is not None
        self._seed, self._epoch = seed, 0
        self._order = self._new_order()

    @property
    def num_batches(self) -> int | None:
        """Number of batches, None without end."""
        return self._batches.num_batches

    def __getitem__(self, index: int) -> Any:
        """Return batch number `index` of the epoch."""
        return self._make(self._batches, int(self._order[index]) if self._shuffle else index)

    def on_epoch_begin(self) -> None:
        """Pass the call on to the original. Local."""
        self._batches.on_epoch_begin()

    def on_epoch_end(self) -> None:
        """Pass the call on to the original, and draw the order of the next epoch. Local."""
        self._batches.on_epoch_end()
        self._epoch += 1
        self._order = self._new_order()

    def _make(self, batches: Any, index: int) -> Any:
        return batches[index]

    def _new_order(self) -> np.ndarray:
        if not self._shuffle:
            return np.zeros(0, np.int64)
        return np.random.default_rng([self._seed, self._epoch]).permutation(self.num_batches or 0)


class NumberedPyDataset(SameOrderPyDataset):
    """A `PyDataset` whose batches come with their numbers, for comparison; see `split_numbers`."""

    def _make(self, batches: Any, index: int) -> Any:
        return _with_numbers(batches[index], [index + 1])


class RankRowsPyDataset(SameOrderPyDataset):
    """A `PyDataset` of one rank's rows of each batch, which are made without the other rows.

    `num_samples(index)` of the user's gives the samples in a batch, and `get_rows(index, rows)` the
    rows `batch[rows]` for a slice. They come with the numbers of the batch, and of its local and
    global samples.
    """

    def __init__(self, batches: Any, shuffle: bool, seed: int, rank: int, size: int) -> None:
        super().__init__(batches, shuffle, seed)
        self._rank, self._size = rank, size

    def _make(self, batches: Any, index: int) -> Any:
        num_global = batches.num_samples(index)
        num_local = tnt_data.micro_batch_size(num_global, self._rank, self._size)
        rows = slice(self._rank if num_local else 0, None, self._size)
        batch = batches.get_rows(index, rows if num_local else slice(0, 1))
        _check_made(batch, max(num_local, min(num_global, 1)))
        return _with_numbers(batch, [index + 1, num_local, num_global])


def _check_made(batch: Any, num_rows: int) -> None:
    """Refuse rows of `get_rows` that are more or fewer than were asked for."""
    made = [np.shape(leaf)[0] for leaf in keras.tree.flatten(batch) if np.ndim(leaf)]
    if any(number != num_rows for number in made):
        raise ValueError(
            f"`get_rows` must make as many rows of each component as it is asked for, of "
            f"`num_samples` in the batch. Received: {made} instead of {num_rows}."
        )


def split_numbers(element: Any) -> tuple[Any, Any]:
    """Return the user's batch, as Keras makes it, and its numbers, of shape `(1, count)`. Local."""
    if isinstance(element, dict):
        return element["batch"], element["numbers"]
    (inputs, numbers), *others = element
    return (inputs, *others), numbers


def _with_numbers(batch: Any, numbers: list[int]) -> Any:
    """Return the user's batch and numbers in a form that Keras takes for a batch.

    Keras passes dictionaries on as they are, and makes a tuple of anything else.
    """
    row = np.array([numbers], np.int64)
    if isinstance(batch, dict):
        return {"batch": batch, "numbers": row}
    inputs, *others = batch if isinstance(batch, (tuple, list)) else (batch,)
    return ((inputs, row), *others)
