"""What Keras is given on one rank in place of the user's input, and functions of its batches."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

import tnt_data
from tnt_keras.keras_hooks.private import DataAdapter, adapter_of
from tnt_keras.step.batch import unmarked


@dataclasses.dataclass(frozen=True)
class DistributedInput:
    """What Keras is given on this rank in place of the user's input."""

    data: Any  # for Keras' `x`: a dataset, or an adapter of one
    batch_size: int | None  # of the global batch
    is_compared: bool  # between ranks in each step, hence at the end of epochs too
    epochs_are_independent: bool = False  # the same, whether earlier ones were read or not
    irreproducible: tuple[str, ...] = ()  # why another process sees other samples
    is_read_by_master: bool = False  # and sent, so that other ranks draw nothing

    @property
    def batches(self) -> Any:
        """The batches of this rank: a dataset, or `Batches`. Collective as reading is."""
        is_dataset = isinstance(self.data, tf.data.Dataset)
        return self.data if is_dataset else self.data.get_tf_dataset()

    @property
    def batch_spec(self) -> Any:
        """Specs of what the model's own steps receive. Collective as reading is."""
        return unmarked(self.batches.element_spec)


class Batches:
    """Stands for a dataset: `begin_pass` returns an iterator, which is used when it is asked.

    `element_spec` is that of the batches, `number` how many there are, None if that is not known.
    """

    def __init__(
        self, element_spec: Any, number: int | None, begin_pass: Callable[[], Pass]
    ) -> None:
        self.element_spec = element_spec
        self._number = number
        self._begin_pass = begin_pass

    def __len__(self) -> int:
        """Return the number of batches; a `TypeError` if it is not known. Local."""
        if self._number is None:
            raise TypeError("The number of batches is infinite or not known.")
        return self._number

    def __iter__(self) -> Pass:
        """Make an iterator. Local."""
        return self._begin_pass()


class Pass:
    """An iterator over batches, with their spec; `begin` is called before the first is read."""

    def __init__(
        self, batches: Iterator[Any], element_spec: Any, begin: Callable[[], None] = lambda: None
    ) -> None:
        self.element_spec = element_spec
        self._batches = batches
        self._begin: Callable[[], None] | None = begin

    def __iter__(self) -> Pass:
        """Return itself."""
        return self

    def __next__(self) -> Any:
        """Return the next batch. Collective as reading is."""
        self.begin()
        return next(self._batches)

    def begin(self) -> None:
        """Begin the pass, unless it has begun. Collective as its beginning is."""
        begin, self._begin = self._begin, None
        if begin is not None:
            begin()


class PythonInput(DataAdapter):
    """Input that changes the dataset which Keras makes of what Python code makes.

    `begin_epoch` is called at the begin of each epoch, `begin_pass` before the first batch is read.
    """

    def __init__(
        self,
        data: Any,
        class_weight: dict[int, float] | None,
        change: Callable[[tf.data.Dataset], tf.data.Dataset],
        begin_epoch: Callable[[], None] = lambda: None,
        begin_pass: Callable[[], None] = lambda: None,
    ) -> None:
        self._adapter = adapter_of(data, class_weight)
        self._change = change
        self._begin_epoch, self._begin_pass = begin_epoch, begin_pass

    def get_tf_dataset(self) -> Batches:
        """Return the batches of an epoch. Local."""
        dataset = tnt_data.without_autotuning(self._change(self._adapter.get_tf_dataset()))
        spec = dataset.element_spec

        def begin_pass() -> Pass:
            return Pass(iter(dataset), spec, self._begin_pass)

        return Batches(spec, self.num_batches, begin_pass)

    @property
    def num_batches(self) -> int | None:
        """Batches in an epoch, None if not known."""
        number: int | None = self._adapter.num_batches
        return number

    def on_epoch_begin(self) -> None:
        """Start workers. Collective if the order of batches is drawn."""
        self._begin_epoch()
        self._adapter.on_epoch_begin()

    def on_epoch_end(self) -> None:
        """Stop workers. Local."""
        self._adapter.on_epoch_end()


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
    dataset = map_batches(dataset, [_on_data(function) for function in functions])
    return dataset.prefetch(tf.data.AUTOTUNE) if functions else dataset


def _on_data(function: BatchFunction) -> BatchFunction:
    return lambda part: part._replace(data=function(part.data))
