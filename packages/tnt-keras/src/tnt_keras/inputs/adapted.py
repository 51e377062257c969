"""What Keras is given on one rank, and how batches are changed on the way there."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

import tnt_data
from tnt_keras.step.local_batch import LocalBatch

Change = Callable[[Any], Any]
"""Makes another batch of a batch."""
ClassWeight = dict[int, float] | None


@dataclasses.dataclass(frozen=True)
class Feed:
    """What Keras is given on this rank.

    Attributes:
        data: In place of the user's input.
        batch_spec: Specs of the batches that the model's own steps receive.
        batch_size: Size of the global batch, None if it is not known.
        is_compared: Whether ranks compare their data at the beginning of each step, and therefore
            at the end of each epoch too.
    """

    data: Any
    batch_spec: Any
    batch_size: int | None
    is_compared: bool


def changed(dataset: tf.data.Dataset, changes: list[Change]) -> tf.data.Dataset:
    """Applies changes to the elements of a dataset, one after the other. Local.

    Args:
        dataset: Any dataset.
        changes: Each is given an element as one argument.
    """
    is_tuple = type(dataset.element_spec) is tuple
    for change in changes:

        @tf.autograph.experimental.do_not_convert
        def call(*arguments: Any, change: Change = change, is_tuple: bool = is_tuple) -> Any:
            return change(arguments if is_tuple else arguments[0])

        dataset = dataset.map(call)
        is_tuple = type(dataset.element_spec) is tuple
    return dataset


def with_changed_data(dataset: tf.data.Dataset, changes: list[Change]) -> tf.data.Dataset:
    """Applies changes to the data of micro-batches, and makes a few ahead of time. Local.

    Args:
        dataset: Yields `tnt_data.MicroBatch`.
        changes: As for `changed`.
    """
    for change in changes:

        @tf.autograph.experimental.do_not_convert
        def call(micro_batch: tnt_data.MicroBatch, change: Change = change) -> tnt_data.MicroBatch:
            return micro_batch._replace(data=change(micro_batch.data))

        dataset = dataset.map(call)
    return dataset.prefetch(tf.data.AUTOTUNE) if changes else dataset


def marked_as_own(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Marks batches as this rank's own. Local."""
    return changed(dataset, [LocalBatch])
