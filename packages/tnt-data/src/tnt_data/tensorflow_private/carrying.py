"""Repeats steps on elements that carry numbers: `(numbers, element)` instead of `element`.

The numbers tell of the global batch that a row belongs to. Steps that look at elements are
given the part that they were made for and put it back; functions are the user's own, traced ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.data.util import nest

from tnt_data.tensorflow_private.changes import Changes
from tnt_data.tensorflow_private.copying import copy_function
from tnt_data.tensorflow_private.functions import call_again, find_hidden
from tnt_data.tensorflow_private.replaying import REPLAYS, is_deterministic
from tnt_data.tensorflow_private.reseeding import with_own_random_numbers

Branch = Sequence[tuple[Any, int]]


def repeat_with_numbers(
    step: Any, branch: Branch, source: tf.data.Dataset, changes: Changes
) -> tf.data.Dataset:
    """A step like `step` on elements `(numbers, element)`. Local.

    Args:
        step: The dataset to repeat.
        branch: Zips between the step and the carried element, outermost first, each with the
            number of the input that the step feeds. If any, the step must be a `map`.
        source: Yields `(numbers, element)`.
        changes: As for other repetitions.
    """
    name = type(step).__name__
    if name in ("_MapDataset", "_ParallelMapDataset"):
        return _map(step, branch, source, changes.rank)
    if name in ("_BatchDataset", "_ParallelBatchDataset", "_PaddedBatchDataset"):
        batches = batch_like(step, source, step._batch_size)
        return batches.map(lambda numbers, element: (numbers[0], element))
    return REPLAYS[name](step, [source], changes)


def open_windows(source: tf.data.Dataset) -> tf.data.Dataset:
    """From `(numbers, window)` to `(numbers, element)` for all elements of the windows. Local."""

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def elements(numbers: tf.Tensor, window: Any) -> tf.data.Dataset:
        repeated = tf.data.Dataset.from_tensors(numbers).repeat()
        return tf.data.Dataset.zip((repeated, tf.data.Dataset.zip(window)))

    return source.flat_map(elements)


def batch_like(step: Any, source: tf.data.Dataset, num_rows: int) -> tf.data.Dataset:
    """Joins `(numbers, sample)` as a `batch` or `padded_batch` step does, in its own size. Local.

    Args:
        step: The dataset that joins samples.
        source: Yields `(numbers, sample)`.
        num_rows: Samples in a batch.
    """
    drop_remainder = bool(step._drop_remainder)
    if type(step).__name__ == "_PaddedBatchDataset":
        zero = tf.constant(0, tf.int64)
        shapes = (source.element_spec[0].shape, step._padded_shapes)
        values = (zero, step._padding_values)
        return source.padded_batch(num_rows, shapes, values, drop_remainder, name=step._name)
    parallel = getattr(step, "_num_parallel_calls", None)
    if parallel is None:
        return source.batch(num_rows, drop_remainder, name=step._name)
    return source.batch(
        num_rows, drop_remainder, parallel, deterministic=is_deterministic(step), name=step._name
    )


def repeat_on_rows(step: Any, source: tf.data.Dataset) -> tf.data.Dataset:
    """A row-wise map like `step` on the data of micro-batches. Local.

    Args:
        step: The dataset to repeat.
        source: Yields named tuples with the field `data`, of which there are fewer rows.
    """
    wrapper = step._map_func
    captured = wrapper.function.captured_inputs
    specs = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in wrapper.function.inputs]
    rows = tf.nest.flatten(source.element_spec.data)
    function = copy_function(wrapper.function, specs=[*rows, *specs[len(rows) :]])

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def call(micro_batch: Any) -> Any:
        results = function(*tf.nest.flatten(micro_batch.data), *captured)
        return micro_batch._replace(
            data=tf.nest.pack_sequence_as(wrapper.output_structure, results)
        )

    return _map_like(step, source, call)


def _map(step: Any, branch: Branch, source: tf.data.Dataset, rank: int) -> tf.data.Dataset:
    function = _function(step, rank)
    for zipped, number in reversed(branch):
        function = _on_part(function, zipped._datasets, number)

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def call(numbers: tf.Tensor, element: Any) -> Any:
        return numbers, _apply(function, element)

    return _map_like(step, source, call)


def _map_like(step: Any, source: tf.data.Dataset, function: Any) -> tf.data.Dataset:
    """A map with another function, but as many calls at a time and in the same order."""
    if type(step).__name__ == "_MapDataset":
        synchronous = getattr(step, "_force_synchronous", False)
        more = {"synchronous": True} if synchronous else {}
        return source.map(function, name=step._name, **more)
    unbounded = getattr(step, "_use_unbounded_threadpool", False)
    more = {"use_unbounded_threadpool": True} if unbounded else {}
    return source.map(
        function,
        num_parallel_calls=step._num_parallel_calls,
        deterministic=is_deterministic(step),
        name=step._name,
        **more,
    )


def _function(step: Any, rank: int) -> Callable[..., Any]:
    """The function of a map, with this rank's own random numbers.

    Ranks with the same seed would change neighbouring samples in the same way.
    """
    wrapper = step._map_func
    if "seeded random" not in find_hidden([wrapper]):
        return call_again(wrapper)
    return call_again(wrapper, with_own_random_numbers(wrapper.function, rank))


def _on_part(function: Callable[..., Any], structure: Any, number: int) -> Callable[..., Any]:
    """A function that applies another one to one input of a zip of the given structure."""

    def call(*arguments: Any) -> Any:
        element = arguments if type(structure) is tuple else arguments[0]
        parts = nest.flatten_up_to(structure, element)
        parts[number] = _apply(function, parts[number])
        return nest.pack_sequence_as(structure, parts)

    return call


def _apply(function: Callable[..., Any], element: Any) -> Any:
    return function(*element) if type(element) is tuple else function(element)
