"""Repeats steps on elements that carry numbers: `(numbers, element)` instead of `element`.

The numbers tell of the global batch that a row belongs to. Steps that look at elements are
given the part that they were made for and put it back; functions are the user's own, traced ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tnt_data.steps.changes import Changes
from tnt_data.steps.copying import copy_function
from tnt_data.steps.functions import call_again, find_hidden
from tnt_data.steps.maps import MAPS
from tnt_data.steps.replaying import REPLAYS, is_deterministic
from tnt_data.steps.reseeding import with_own_random_numbers
from tnt_data.tensorflow_private import OpenStep, flatten_up_to, pack

Branch = Sequence[tuple[tf.data.Dataset, int]]


def repeat_with_numbers(
    dataset: tf.data.Dataset, branch: Branch, source: tf.data.Dataset, changes: Changes
) -> tf.data.Dataset:
    """A step like `dataset` on elements `(numbers, element)`; the numbers stay as they are. Local.

    Args:
        dataset: The dataset to repeat, one that was planned to be moved.
        branch: Zips between the step and the carried element, outermost first, each with the
            number of the input that the step feeds. If any, the step must be a `map`.
        source: Yields `(numbers, element)`.
        changes: As for `replay_step`.
    """
    step = OpenStep(dataset)
    if step.name in MAPS:
        return _map(step, branch, source, changes.rank)
    if step.name in ("batch", "parallel batch", "padded_batch"):
        batches = batch_like(dataset, source, step.argument("batch_size"))
        return batches.map(lambda numbers, element: (numbers[0], element))
    return REPLAYS[step.name](step, [source], changes)


def open_windows(source: tf.data.Dataset) -> tf.data.Dataset:
    """From `(numbers, window)` to `(numbers, element)` for all elements of the windows. Local."""

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def elements(numbers: tf.Tensor, window: Any) -> tf.data.Dataset:
        repeated = tf.data.Dataset.from_tensors(numbers).repeat()
        return tf.data.Dataset.zip((repeated, tf.data.Dataset.zip(window)))

    return source.flat_map(elements)


def batch_like(dataset: tf.data.Dataset, source: tf.data.Dataset, num_rows: int) -> tf.data.Dataset:
    """Joins `(numbers, sample)` as a `batch` or `padded_batch` step does, in its own size. Local.

    Args:
        dataset: The dataset that joins samples.
        source: Yields `(numbers, sample)`.
        num_rows: Samples in a batch.
    """
    step = OpenStep(dataset)
    drop_remainder, name = bool(step.argument("drop_remainder")), step.argument("name")
    if step.name == "padded_batch":
        zero = tf.constant(0, tf.int64)
        shapes = (source.element_spec[0].shape, step.argument("padded_shapes"))
        values = (zero, step.argument("padding_values"))
        return source.padded_batch(num_rows, shapes, values, drop_remainder, name=name)
    parallel = step.argument("num_parallel_calls", None)
    if parallel is None:
        return source.batch(num_rows, drop_remainder, name=name)
    return source.batch(
        num_rows, drop_remainder, parallel, deterministic=is_deterministic(step), name=name
    )


def repeat_on_rows(dataset: tf.data.Dataset, source: tf.data.Dataset) -> tf.data.Dataset:
    """A row-wise map like `dataset` on the data of micro-batches. Local.

    Args:
        dataset: The dataset to repeat.
        source: Yields named tuples with the field `data`, of which there are fewer rows.
    """
    step = OpenStep(dataset)
    traced = step.functions[0]
    captured = traced.function.captured_inputs
    specs = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in traced.function.inputs]
    rows = tf.nest.flatten(source.element_spec.data)
    function = copy_function(traced.function, specs=[*rows, *specs[len(rows) :]])

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def call(micro_batch: Any) -> Any:
        results = function(*tf.nest.flatten(micro_batch.data), *captured)
        return micro_batch._replace(data=tf.nest.pack_sequence_as(traced.gives, results))

    return _map_like(step, source, call)


def _map(step: OpenStep, branch: Branch, source: tf.data.Dataset, rank: int) -> tf.data.Dataset:
    function = _function(step, rank)
    for zipped, number in reversed(branch):
        function = _on_part(function, OpenStep(zipped).argument("datasets"), number)

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def call(numbers: tf.Tensor, element: Any) -> Any:
        return numbers, _apply(function, element)

    return _map_like(step, source, call)


def _map_like(step: OpenStep, source: tf.data.Dataset, function: Any) -> tf.data.Dataset:
    """A map with another function, but as many calls at a time and in the same order."""
    name = step.argument("name")
    if step.name == "map":
        more = {"synchronous": True} if step.argument("force_synchronous", False) else {}
        return source.map(function, name=name, **more)
    unbounded = step.argument("use_unbounded_threadpool", False)
    more = {"use_unbounded_threadpool": True} if unbounded else {}
    return source.map(
        function,
        num_parallel_calls=step.argument("num_parallel_calls"),
        deterministic=is_deterministic(step),
        name=name,
        **more,
    )


def _function(step: OpenStep, rank: int) -> Callable[..., Any]:
    """The function of a map, with this rank's own random numbers.

    Ranks with the same seed would change neighbouring samples in the same way.
    """
    traced = step.functions[0]
    if "seeded random" not in find_hidden([traced]):
        return call_again(traced)
    return call_again(traced, with_own_random_numbers(traced.function, rank))


def _on_part(function: Callable[..., Any], structure: Any, number: int) -> Callable[..., Any]:
    """A function that applies another one to one input of a zip of the given structure."""

    def call(*arguments: Any) -> Any:
        element = arguments if type(structure) is tuple else arguments[0]
        parts = flatten_up_to(structure, element)
        parts[number] = _apply(function, parts[number])
        return pack(structure, parts)

    return call


def _apply(function: Callable[..., Any], element: Any) -> Any:
    return function(*element) if type(element) is tuple else function(element)
