"""Input that Python code makes: `keras.utils.PyDataset` and generators.

Keras reads the batches, so that workers and epochs are as the user wants them. What it reads is
then changed to this rank's part. Ranks compare in each step which batch it is that they have, since
Keras does not promise an order: batches that workers have made too early for an epoch, for example,
are used in the next one.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

import tnt_data
from tnt_keras.inputs.adapted import ClassWeight, Feed, changed, marked_as_own
from tnt_keras.inputs.arguments import Sharing
from tnt_keras.inputs.generator_reader import batches_of, reader_of
from tnt_keras.inputs.py_dataset import (
    CommonOrder,
    NumberedBatches,
    RowsOfRank,
    draws_random_numbers,
    makes_rows,
    separate,
)
from tnt_keras.keras_hooks.private import ChangedInput
from tnt_keras.process.log import logger
from tnt_keras.process.rank import get_rank, get_size
from tnt_keras.step.local_batch import CheckedBatch

_FACTOR = 31


def feed_from_python(
    batches: Any, sharing: Sharing, shuffle: bool, class_weight: ClassWeight, seed: int
) -> Feed:
    """Prepares batches that Python code makes. Only for several ranks. Local.

    Args:
        batches: A `PyDataset` or generator.
        sharing: How ranks share them.
        shuffle: Whether the batches of a `PyDataset` are shuffled.
        class_weight: As for `fit`.
        seed: Decides the order of the batches of a `PyDataset`, if they are shuffled.
    """
    is_generator = not hasattr(batches, "num_batches")
    if not sharing.distribute:
        own = batches if is_generator else CommonOrder(batches, shuffle, seed)
        data = ChangedInput(own, class_weight, marked_as_own)
        return Feed(data, data.get_tf_dataset().element_spec.data, None, not sharing.apart)
    _warn(batches, sharing.verify)
    rank, size = get_rank(), get_size()
    if is_generator:
        reader = reader_of(batches)
        data = ChangedInput(
            batches_of(batches, reader),
            class_weight,
            lambda whole: _slice_generated(whole, rank, size, sharing.verify),
            lambda: reader.begin_epoch(sharing.steps),
        )
    elif makes_rows(batches):
        rows = RowsOfRank(batches, shuffle, seed, rank, size)
        data = ChangedInput(rows, class_weight, _with_counts)
    else:
        data = ChangedInput(
            NumberedBatches(batches, shuffle, seed),
            class_weight,
            lambda whole: _slice_numbered(whole, rank, size, sharing.verify),
        )
    return Feed(data, data.get_tf_dataset().element_spec.micro_batch.data, None, True)


def _warn(batches: Any, verify: bool) -> None:
    """Says what may make ranks differ and is not compared."""
    name = getattr(batches, "__name__", type(batches).__name__)
    if verify and makes_rows(batches):
        logger.warning(
            "rank %d: of %s only the order of batches is compared, since each rank makes its own "
            "rows.",
            get_rank(),
            name,
        )
    elif not verify and draws_random_numbers(batches):
        logger.warning(
            "rank %d: the Python code of %s draws random numbers and sets no seed, so that ranks "
            "may see different samples. Seed it alike on all ranks; `verify_inputs=True` compares "
            "what they read.",
            get_rank(),
            name,
        )


def _with_counts(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """From what `RowsOfRank` makes to micro-batches."""

    def micro_batch(element: Any) -> CheckedBatch:
        rows, numbers = separate(element)
        number, num_local, num_global = tf.unstack(numbers[0], 3)
        return CheckedBatch(tnt_data.MicroBatch(rows, num_local, num_global, number))

    return changed(dataset, [micro_batch])


def _slice_generated(
    dataset: tf.data.Dataset, rank: int, size: int, verify: bool
) -> tf.data.Dataset:
    """Micro-batches of what a generator makes, which is read ahead already."""
    whole = tnt_data.without_prefetch(dataset)
    return changed(tnt_data.slice_batches(whole, rank, size, verify), [CheckedBatch])


def _slice_numbered(
    dataset: tf.data.Dataset, rank: int, size: int, verify: bool
) -> tf.data.Dataset:
    """From what `NumberedBatches` makes to micro-batches."""

    def with_number(element: Any) -> dict[str, Any]:
        batch, numbers = separate(element)
        return {"batch": batch, "number": numbers[0, 0]}

    def without_number(part: tnt_data.MicroBatch) -> CheckedBatch:
        fingerprint = part.fingerprint * _FACTOR + part.data["number"]
        return CheckedBatch(part._replace(data=part.data["batch"], fingerprint=fingerprint))

    numbered = changed(dataset, [with_number])
    parts = tnt_data.slice_batches(numbered, rank, size, verify)
    return changed(parts, [without_number])
