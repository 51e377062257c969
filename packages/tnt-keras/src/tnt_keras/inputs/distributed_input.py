"""What Keras is given on one rank in place of the user's input, and functions of its batches."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

import tnt_data
from tnt_keras.step.batch import unmarked


@dataclasses.dataclass(frozen=True)
class DistributedInput:
    """What Keras is given on this rank in place of the user's input."""

    data: Any  # for Keras' `x`: a dataset, or an adapter of one
    batch_size: int | None  # of the global batch
    is_compared: bool  # between ranks in each step, hence at the end of epochs too
    epochs_are_independent: bool = False  # the same, whether earlier ones were read or not
    irreproducible: tuple[str, ...] = ()  # why another process sees other samples

    @property
    def batch_spec(self) -> Any:
        """Specs of what the model's own steps receive. Collective as reading is."""
        is_dataset = isinstance(self.data, tf.data.Dataset)
        return unmarked((self.data if is_dataset else self.data.get_tf_dataset()).element_spec)


BatchFunction = Callable[[Any], Any]
"""Takes a batch as one argument, whatever its structure, and returns another one."""


def map_batches(dataset: tf.data.Dataset, functions: list[BatchFunction]) -> tf.data.Dataset:
    """Apply functions to the elements of a dataset, be they tuples or not, in turn. Local."""
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
