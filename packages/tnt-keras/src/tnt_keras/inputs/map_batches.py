"""Apply functions of batches to datasets of whole batches and of micro-batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

import tnt_data
from tnt_keras.step.batch_part import LocalBatch

BatchFunction = Callable[[Any], Any]
"""Takes a batch as one argument, whatever its structure, and returns another one."""


def map_batches(dataset: tf.data.Dataset, functions: list[BatchFunction]) -> tf.data.Dataset:
    """Apply functions to the elements of a dataset, one after the other. Local.

    Args:
        dataset: Any dataset.
        functions: Each is given an element as one argument, also if it is a tuple.
    """
    is_tuple = type(dataset.element_spec) is tuple
    for function in functions:

        @tf.autograph.experimental.do_not_convert
        def call(
            *arguments: Any, function: BatchFunction = function, is_tuple: bool = is_tuple
        ) -> Any:
            return function(arguments if is_tuple else arguments[0])

        dataset = dataset.map(call)
        is_tuple = type(dataset.element_spec) is tuple
    return dataset


def map_micro_batches(dataset: tf.data.Dataset, functions: list[BatchFunction]) -> tf.data.Dataset:
    """Apply functions to the data of micro-batches, some batches ahead of time. Local."""
    for function in functions:

        @tf.autograph.experimental.do_not_convert
        def call(
            micro_batch: tnt_data.MicroBatch, function: BatchFunction = function
        ) -> tnt_data.MicroBatch:
            return micro_batch._replace(data=function(micro_batch.data))

        dataset = dataset.map(call)
    return dataset.prefetch(tf.data.AUTOTUNE) if functions else dataset


def mark_as_local(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Mark batches as this rank's own samples, which no other rank reads. Local."""
    return map_batches(dataset, [LocalBatch])
