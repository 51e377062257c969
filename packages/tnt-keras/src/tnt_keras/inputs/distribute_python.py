"""Input that Python code makes: `keras.utils.PyDataset` and generators.

Where it makes the same each time, all ranks read it, by Keras, so that workers and epochs are as
the user wants them, and what they read is cut to their parts. Keras promises no order: batches that
workers have made too early for an epoch are used in the next one. So ranks compare in each step
which batch it is that they have, and some of its rows. Other input is read by the master rank.
"""

from __future__ import annotations

import atexit
import functools
import gc
import sys
import types
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

import tnt_data
from tnt_keras.inputs.arguments import VALIDATION, InputArguments
from tnt_keras.inputs.class_weights import ClassWeight
from tnt_keras.inputs.distributed_input import DistributedInput, PythonInput, map_batches
from tnt_keras.inputs.master_reader import MasterInput, is_read_by_master
from tnt_keras.inputs.python_batches import (
    NumberedPyDataset,
    OrderedPyDataset,
    RankRowsPyDataset,
    batches_are_independent,
    batches_of,
    differs_when_read_again,
    is_read_in_parallel,
    makes_rows,
    reader_of,
    split_numbers,
)
from tnt_keras.keras_hooks.private import adapter_of
from tnt_keras.process.lanes import row_split
from tnt_keras.process.rank import get_rank, get_size, logger
from tnt_keras.step.batch import Part, compared, num_rows, rows_at, spread_positions

_FACTOR = 31
_COMPARED_ROWS = 8  # of a batch, or a few more: next to nothing to read


def distribute_python_input(
    given: InputArguments, shuffle: bool, class_weight: ClassWeight
) -> DistributedInput:
    """Give this rank its part of the batches that Python code makes. Collective.

    With one rank it is the whole, in the order that it has on several.
    """
    shuffle = shuffle and isinstance(given.x, keras.utils.PyDataset)
    if get_size() > 1:
        free_iterators_at_exit()
    if given.distribute and is_read_by_master(given, lambda: _differs_when_read_again(given)):
        if isinstance(given.x, types.GeneratorType):
            reader_of(given.x).is_master = True
        data = MasterInput(lambda: adapter_of(given.x, class_weight, shuffle=shuffle))
        independent = batches_are_independent(given.x) and not shuffle
        return DistributedInput(data, None, False, independent, is_read_by_master=True)
    is_compared = get_size() > 1 and (given.distribute or given.needs_equal_steps)
    data = _input_of_all(given, shuffle, class_weight)
    return DistributedInput(data, None, is_compared, batches_are_independent(given.x))


def _differs_when_read_again(given: InputArguments) -> bool:
    is_validation = given.keywords is VALIDATION
    return differs_when_read_again(given.x, given.steps, is_validation=is_validation)


def _input_of_all(given: InputArguments, shuffle: bool, class_weight: ClassWeight) -> PythonInput:
    """Return this rank's rows of batches that all make alike, or all if it shares none."""
    is_shared = given.distribute and get_size() > 1
    if isinstance(given.x, keras.utils.PyDataset):
        batches, change = _ordered(given, shuffle, is_shared=is_shared)
        begin = "begin_epoch" if is_read_in_parallel(given.x) else "begin_pass"
        return PythonInput(batches, class_weight, change, **{begin: batches.draw_order})
    if not is_shared:
        return PythonInput(given.x, class_weight, _mark_own)
    if not isinstance(given.x, types.GeneratorType):
        return PythonInput(given.x, class_weight, lambda whole: _slice(whole, given))
    reader = reader_of(given.x)
    reader.begin_use()
    return PythonInput(
        batches_of(given.x, reader),
        class_weight,
        lambda whole: _slice(tnt_data.without_prefetch(whole), given),  # the reader reads ahead
        begin_epoch=lambda: reader.begin_epoch(given.steps),
    )


def _ordered(
    given: InputArguments, shuffle: bool, *, is_shared: bool
) -> tuple[OrderedPyDataset, Callable[[tf.data.Dataset], tf.data.Dataset]]:
    """Return a `PyDataset` in the order of all ranks, and what makes this rank's part of it."""
    if not is_shared:
        return OrderedPyDataset(given.x, shuffle, is_shared=False), _mark_own
    if not makes_rows(given.x):
        numbered = NumberedPyDataset(given.x, shuffle)
        return numbered, lambda whole: _slice(whole, given, _split_number)
    if given.verify:
        logger.warning(
            "rank %d: ranks compare only the order of the batches of %s, since each rank makes "
            "its own rows. [not-compared]",
            get_rank(),
            type(given.x).__name__,
        )
    return RankRowsPyDataset(given.x, shuffle, row_split()), _rows_to_micro_batches


def _mark_own(whole: tf.data.Dataset) -> tf.data.Dataset:
    return map_batches(whole, [compared] if get_size() > 1 else [])


def _rows_to_micro_batches(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Turn elements of a `RankRowsPyDataset`, which hold rows of this rank, into micro-batches."""

    def micro_batch(element: Any) -> Part:
        rows, numbers = split_numbers(element)
        number, num_local, num_global = tf.unstack(numbers[0], 3)
        return compared(tnt_data.MicroBatch(rows, num_local, num_global, number))

    return map_batches(dataset, [micro_batch])


def _split_number(element: Any) -> tuple[Any, tf.Tensor]:
    batch, numbers = split_numbers(element)
    return batch, numbers[0, 0]


def _without_number(batch: Any) -> tuple[Any, tf.Tensor]:
    return batch, tf.constant(0, tf.int64)


def _slice(
    dataset: tf.data.Dataset,
    given: InputArguments,
    split: Callable[[Any], tuple[Any, tf.Tensor]] = _without_number,
) -> tf.data.Dataset:
    """Cut this rank's micro-batches out of global batches, with a number that ranks compare.

    That is 31 f + k (mod 2^64) for batch k with fingerprint f, of the whole batch, of some rows, or
    0, as `given.verify` says.
    """

    def with_number(element: Any) -> dict[str, Any]:
        batch, number = split(element)
        batch = tnt_data.check_rows(batch)
        if given.verify is None:
            number += _FACTOR * _fingerprint_of_some_rows(batch)
        return {"batch": batch, "number": number}

    def without_number(part: tnt_data.MicroBatch) -> Part:
        fingerprint = part.fingerprint * _FACTOR + part.data["number"]
        return compared(part._replace(data=part.data["batch"], fingerprint=fingerprint))

    numbered = map_batches(dataset, [with_number])
    rows = row_split()
    parts = tnt_data.slice_batches(
        numbered, rows.rank, rows.size, bool(given.verify), lanes=rows.lanes
    )
    return map_batches(parts, [without_number])


def _fingerprint_of_some_rows(batch: Any) -> tf.Tensor:
    """Return the fingerprint of every k-th row of a batch of N, k = max(1, N // 8)."""
    rows = spread_positions(num_rows(batch), _COMPARED_ROWS)
    leaves = [leaf for leaf in tf.nest.flatten(batch) if leaf is not None and leaf.shape.rank != 0]
    return tnt_data.fingerprint_of([rows_at(leaf, rows) for leaf in leaves])


@functools.cache
def free_iterators_at_exit() -> None:
    """Free iterators over datasets before Python ends. Local; only the first call does anything.

    TensorFlow frees an iterator when its calls of Python code have ended, which they never do once
    Python is about to end: the process would hang. An error keeps the iterators of its frames.
    """
    atexit.register(_free_iterators)


def _free_iterators() -> None:
    for name in ("last_exc", "last_value", "last_traceback"):
        if hasattr(sys, name):
            delattr(sys, name)
    gc.collect()
