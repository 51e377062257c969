"""Transformations that apply a function of the user to each element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tnt_data.description.transformation import Kind
from tnt_data.functions.call import as_callable
from tnt_data.functions.contents import contents_of
from tnt_data.functions.graph_copy import copy_function
from tnt_data.functions.seeding import with_own_random_numbers
from tnt_data.tensorflow_private import (
    InspectedDataset,
    flatten_up_to,
    pack,
    rebuild_by_constructor,
)
from tnt_data.transformations.call_order import deterministic_argument
from tnt_data.transformations.dataset_class import Branch, Changes, DatasetClass, Inputs
from tnt_data.transformations.raw_operations import by_operation_with_function


def function_name(inspected: InspectedDataset) -> list[str]:
    """Return the name of the user's function, to be shown. Local."""
    return [getattr(inspected.functions[0].code, "__name__", "function")]


def map_rows(dataset: tf.data.Dataset, source: tf.data.Dataset) -> tf.data.Dataset:
    """Apply a map that treats each row alone to `data` of micro-batches. Local."""
    inspected = InspectedDataset(dataset)
    traced = inspected.functions[0]
    captured = traced.function.captured_inputs
    specs = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in traced.function.inputs]
    rows = tf.nest.flatten(source.element_spec.data)
    function = copy_function(traced.function, specs=[*rows, *specs[len(rows) :]])

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def call(micro_batch: Any) -> Any:
        results = function(*tf.nest.flatten(micro_batch.data), *captured)
        return micro_batch._replace(data=tf.nest.pack_sequence_as(traced.gives, results))

    return _map_by(call, inspected, source)


def _map(inspected: InspectedDataset, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    is_forced = inspected.argument("force_synchronous", False)
    return by_operation_with_function(
        inspected,
        inputs[0],
        tf.raw_ops.MapDataset,
        use_inter_op_parallelism=inspected.argument("use_inter_op_parallelism"),
        preserve_cardinality=inspected.argument("preserve_cardinality"),
        **({"force_synchronous": True} if is_forced else {}),
    )


def _parallel_map(inspected: InspectedDataset, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    is_default = inspected.argument("deterministic") == "default"
    is_unbounded = inspected.argument("use_unbounded_threadpool", False)
    return by_operation_with_function(
        inspected,
        inputs[0],
        tf.raw_ops.ParallelMapDatasetV2,
        num_parallel_calls=inspected.argument("num_parallel_calls"),
        deterministic="default" if is_default else "true",
        use_inter_op_parallelism=inspected.argument("use_inter_op_parallelism"),
        preserve_cardinality=inspected.argument("preserve_cardinality"),
        **({"use_unbounded_threadpool": True} if is_unbounded else {}),
    )


def _scan(inspected: InspectedDataset, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    function = as_callable(inspected.functions[0])
    state, name = inspected.argument("initial_state"), inspected.argument("name")
    return inputs[0].scan(state, function, name=name)


def _restructure(inspected: InspectedDataset, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    return rebuild_by_constructor(inspected.dataset, inputs[0], inspected.dataset.element_spec)


def _map_with_numbers(
    inspected: InspectedDataset, branch: Branch, source: tf.data.Dataset, changes: Changes
) -> tf.data.Dataset:
    function = _function_of_rank(inspected, changes.rank)
    for zipped, number in reversed(branch):
        structure = InspectedDataset(zipped).argument("datasets")
        function = _on_part(function, structure, number)

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def call(numbers: tf.Tensor, element: Any) -> Any:
        return numbers, _apply(function, element)

    return _map_by(call, inspected, source)


def _map_by(function: Any, inspected: InspectedDataset, source: tf.data.Dataset) -> tf.data.Dataset:
    """Map by another function, as parallel and in the same order as the original."""
    name = inspected.argument("name")
    if inspected.argument("num_parallel_calls", None) is None:
        more = {"synchronous": True} if inspected.argument("force_synchronous", False) else {}
        return source.map(function, name=name, **more)
    unbounded = inspected.argument("use_unbounded_threadpool", False)
    more = {"use_unbounded_threadpool": True} if unbounded else {}
    return source.map(
        function,
        num_parallel_calls=inspected.argument("num_parallel_calls"),
        deterministic=deterministic_argument(inspected),
        name=name,
        **more,
    )


def _function_of_rank(inspected: InspectedDataset, rank: int) -> Callable[..., Any]:
    """Return the function of a map, with this rank's own random numbers."""
    # Ranks with the same seed would change neighbouring samples in the same way.
    traced = inspected.functions[0]
    if "seeded random" not in contents_of([traced]):
        return as_callable(traced)
    return as_callable(traced, with_own_random_numbers(traced.function, rank))


def _on_part(function: Callable[..., Any], structure: Any, number: int) -> Callable[..., Any]:
    """Return a function that applies another one to one input of a zip of the given structure."""

    def call(*arguments: Any) -> Any:
        element = arguments if type(structure) is tuple else arguments[0]
        parts = flatten_up_to(structure, element)
        parts[number] = _apply(function, parts[number])
        return pack(structure, parts)

    return call


def _apply(function: Callable[..., Any], element: Any) -> Any:
    return function(*element) if type(element) is tuple else function(element)


def _makes_one_of_each(inspected: InspectedDataset) -> bool:
    """Return whether the number of elements stays: maps of TensorFlow 1 may end early."""
    return bool(inspected.argument("preserve_cardinality", False))


CLASSES = (
    DatasetClass(
        "MapDataset",
        "map",
        Kind.FUNCTION,
        _map,
        _map_with_numbers,
        details=function_name,
        is_map=_makes_one_of_each,
        can_map_parts=True,
    ),
    DatasetClass(
        "ParallelMapDataset",
        "map",
        Kind.FUNCTION,
        _parallel_map,
        _map_with_numbers,
        details=function_name,
        is_map=_makes_one_of_each,
        can_map_parts=True,
    ),
    DatasetClass("ScanDataset", "scan", Kind.FUNCTION, _scan, details=function_name),
    DatasetClass("RestructuredDataset", "restructure", Kind.FUNCTION, _restructure),
)
