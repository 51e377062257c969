"""Batches of Python code: their kinds, the order of rank 0 on all ranks, and reading ahead.

A generator goes on from one epoch, or call of `fit`, to the next. What tf.data has read ahead is
lost with its iterator, and how much that is depends on chance, so ranks would get out of step. Here
it depends on nothing but the batches that were asked for: after each of them a thread reads the
next few, but none of an epoch that has not begun. So a generator stands where a serial loop would
leave it; if a callback stops an epoch, what was read ahead is kept for the next use.
"""

from __future__ import annotations

import math
import random
import types
import weakref
from collections import deque
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tnt_data
from tnt_keras.calls.agree import of_master
from tnt_keras.inputs.arrays import as_tensor, is_array, is_sparse
from tnt_keras.keras_hooks.private import in_attributes, is_loader

END = object()
_AHEAD = 2
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
    from where Keras has read ahead to, which no two ranks do to the same batch. One that the master
    rank has read once stands still on the others.
    """
    if isinstance(data, keras.utils.PyDataset):
        return draws_random_numbers(data) or (
            is_read_in_parallel(data) and bool(in_attributes(data, _DRAWING))
        )
    if isinstance(data, types.GeneratorType):
        goes_on_by_itself = is_validation and steps is not None
        return goes_on_by_itself or reader_of(data).is_master or draws_random_numbers(data)
    return True  # a loader, whose workers and transformations nothing tells of


def is_read_in_parallel(data: keras.utils.PyDataset) -> bool:
    """Return whether workers read a `PyDataset`, which begin when an epoch does. Local."""
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
    return tnt_data.draws_random_numbers(*(types.MethodType(each, data) for each in methods))


def batches_are_independent(data: Any) -> bool:
    """Return whether making a batch leaves no trace in those that are made later. Local.

    That is so if the code of `data` draws no random numbers, or seeds them each time, and if it
    holds no generator of them, be it in a list or dictionary. A generator of Python always goes on.
    """
    if not isinstance(data, keras.utils.PyDataset) or draws_random_numbers(data):
        return False
    return not in_attributes(data, _DRAWING)


class OrderedPyDataset(keras.utils.PyDataset):
    """A `PyDataset` whose batches come in one order on all ranks: that of the master rank.

    All draw an order, by the generator that Keras draws it from, which so goes on as in a serial
    run, and take the master's unless each has batches of its own. Workers and
    their processes are those of the original; without end there is no shuffle.
    """

    def __init__(
        self, batches: keras.utils.PyDataset, shuffle: bool, *, is_shared: bool = True
    ) -> None:
        super().__init__(
            workers=batches.workers,
            use_multiprocessing=batches.use_multiprocessing,
            max_queue_size=batches.max_queue_size,
        )
        self._batches = batches
        self._shuffle = shuffle and batches.num_batches is not None
        self._is_shared = is_shared
        self._order: list[int] = []  # while it is empty, that of the numbers

    @property
    def num_batches(self) -> int | None:
        """Number of batches, None without end."""
        return self._batches.num_batches

    def draw_order(self) -> None:
        """Draw the order of the next batches. Collective if they are shuffled."""
        if self._shuffle:
            self._order = list(range(self.num_batches or 0))
            random.shuffle(self._order)
            if self._is_shared:
                self._order = of_master("order of batches", self._order)

    def __getitem__(self, index: int) -> Any:
        """Return batch number `index` of the epoch."""
        return self._make(self._batches, self._order[index] if self._order else index)

    def on_epoch_begin(self) -> None:
        """Pass the call on to the original. Local."""
        self._batches.on_epoch_begin()

    def on_epoch_end(self) -> None:
        """Pass the call on to the original. Local."""
        self._batches.on_epoch_end()

    def _make(self, batches: Any, index: int) -> Any:
        return batches[index]


class NumberedPyDataset(OrderedPyDataset):
    """A `PyDataset` whose batches come with their numbers, for comparison; see `split_numbers`."""

    def _make(self, batches: Any, index: int) -> Any:
        return _with_numbers(batches[index], [index + 1])


class RankRowsPyDataset(OrderedPyDataset):
    """A `PyDataset` of one rank's rows of each batch, which are made without the other rows.

    `num_samples(index)` of the user's gives the samples in a batch, and `get_rows(index, rows)` the
    rows `batch[rows]` for a slice: one of each lane of the rank. They come with the numbers of the
    batch, and of its local and global samples.
    """

    def __init__(self, batches: Any, shuffle: bool, split: tnt_data.RowSplit) -> None:
        super().__init__(batches, shuffle)
        self._split = split

    def _make(self, batches: Any, index: int) -> Any:
        num_global, split = batches.num_samples(index), self._split
        lanes = [lane for lane in split.own_lanes if lane < num_global]
        slices = [slice(lane, None, split.lanes) for lane in lanes] or [slice(0, 1)]
        parts = [batches.get_rows(index, rows) for rows in slices]
        for part, rows in zip(parts, slices, strict=True):
            _check_made(part, len(range(num_global)[rows]))
        batch = parts[0] if len(parts) == 1 else keras.tree.map_structure(_joined, *parts)
        return _with_numbers(batch, [index + 1, split.num_rows(num_global), num_global])


def _check_made(batch: Any, num_rows: int) -> None:
    """Refuse rows of `get_rows` that are more or fewer than were asked for."""
    made = [np.shape(leaf)[0] for leaf in keras.tree.flatten(batch) if np.ndim(leaf)]
    if any(number != num_rows for number in made):
        raise ValueError(
            "`get_rows` must return as many rows of each component as it is asked for. Received: "
            f"{made} instead of {num_rows}."
        )


def _joined(*leaves: Any) -> Any:
    """Return the rows of all lanes of one component, lane after lane."""
    if not is_array(leaves[0]):
        return leaves[0]
    if is_sparse(leaves[0]):
        return tf.sparse.concat(0, [as_tensor(leaf) for leaf in leaves])
    return tf.concat(leaves, 0) if tf.is_tensor(leaves[0]) else np.concatenate(leaves)


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


class GeneratorReader:
    """Read one generator, weakly referenced, in a thread of its own for all its uses."""

    def __init__(self, generator: Generator[Any, None, None]) -> None:
        self.is_master = False  # True once that rank has read it for all, and must go on doing so
        self._generator = weakref.ref(generator)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tnt-generator")
        self._pending: deque[Future[Any]] = deque()
        self._has_epoch = False
        self._spare = 0  # batches that were taken before the first epoch began
        self._wanted: float = 0  # how many more batches the epoch needs

    def begin_use(self) -> None:
        """Stop reading ahead until an epoch begins. Local."""
        self._has_epoch, self._spare, self._wanted = False, 0, 0

    def begin_epoch(self, steps: int | None) -> None:
        """Say how many batches are needed next, None for all, and read the first ones. Local."""
        self._has_epoch = True
        used = self._spare if steps is None else min(self._spare, steps)
        self._spare -= used
        self._wanted = math.inf if steps is None else steps - used
        self._read_ahead()

    def next_batch(self) -> Any:
        """Return the next batch, or `END` after the last one. Local; not from several threads."""
        if not self._pending:
            self._read()
        if self._has_epoch:
            self._wanted -= 1
        else:
            self._spare += 1
        batch = self._pending.popleft().result()
        self._read_ahead()
        return batch

    def _read_ahead(self) -> None:
        while len(self._pending) < min(_AHEAD, self._wanted):
            self._read()

    def _read(self) -> None:
        generator = self._generator()
        assert generator is not None  # the caller of `next_batch` holds it
        self._pending.append(self._thread.submit(next, generator, END))


_READERS: weakref.WeakKeyDictionary[Generator[Any, None, None], GeneratorReader] = (
    weakref.WeakKeyDictionary()
)


def reader_of(generator: Generator[Any, None, None]) -> GeneratorReader:
    """Return the one reader of a generator, for all uses; `begin_use` begins the next. Local."""
    return _READERS.setdefault(generator, GeneratorReader(generator))


def batches_of(
    generator: Generator[Any, None, None], reader: GeneratorReader
) -> Generator[Any, None, None]:
    """Yield the batches of a generator, which lives as long as the result, read ahead. Local."""
    while (batch := reader.next_batch()) is not END:
        yield batch
