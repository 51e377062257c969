"""Transformations that join samples to batches, or take batches apart."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from tnt_data.description.transformation import BatchParameters, Kind
from tnt_data.elements.specs import row_bytes, rows_are_independent
from tnt_data.tensorflow_private import InspectedDataset, rebuild_by_constructor
from tnt_data.transformations.call_order import deterministic_argument
from tnt_data.transformations.dataset_class import (
    Branch,
    Changes,
    DatasetClass,
    Inputs,
    by_method,
    shown,
)
from tnt_data.transformations.raw_operations import by_operation

_PADDED = "PaddedBatchDataset"


def batch_like(dataset: tf.data.Dataset, source: tf.data.Dataset, num_rows: int) -> tf.data.Dataset:
    """Join `(numbers, sample)` as a `batch` or `padded_batch` does, in another size. Local."""
    inspected = InspectedDataset(dataset)
    drop_remainder, name = bool(inspected.argument("drop_remainder")), inspected.argument("name")
    if inspected.class_name == _PADDED:
        zero = tf.constant(0, tf.int64)
        shapes = (source.element_spec[0].shape, inspected.argument("padded_shapes"))
        values = (zero, inspected.argument("padding_values"))
        return source.padded_batch(num_rows, shapes, values, drop_remainder, name=name)
    parallel = inspected.argument("num_parallel_calls", None)
    if parallel is None:
        return source.batch(num_rows, drop_remainder, name=name)
    deterministic = deterministic_argument(inspected)
    return source.batch(num_rows, drop_remainder, parallel, deterministic=deterministic, name=name)


def _batch_with_numbers(
    inspected: InspectedDataset, branch: Branch, source: tf.data.Dataset, changes: Changes
) -> tf.data.Dataset:
    batches = batch_like(inspected.dataset, source, inspected.argument("batch_size"))
    first_number = tf.autograph.experimental.do_not_convert(
        lambda numbers, item: (numbers[0], item)
    )
    return batches.map(first_number)


def _parallel_batch(
    inspected: InspectedDataset, inputs: Inputs, changes: Changes
) -> tf.data.Dataset:
    return inputs[0].batch(
        inspected.argument("batch_size"),
        inspected.argument("drop_remainder"),
        num_parallel_calls=inspected.argument("num_parallel_calls"),
        deterministic=deterministic_argument(inspected),
        name=inspected.argument("name"),
    )


def _unbatch(inspected: InspectedDataset, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    return by_operation(inspected, inputs[0], tf.raw_ops.UnbatchDataset)


def _ragged(inspected: InspectedDataset, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    row_splits = [
        spec.row_splits_dtype
        for spec in tf.nest.flatten(inspected.dataset.element_spec)
        if isinstance(spec, tf.RaggedTensorSpec)
    ]
    dtype = row_splits[0] if row_splits else tf.int64
    return rebuild_by_constructor(inspected.dataset, inputs[0], dtype, inspected.argument("name"))


def _always(inspected: InspectedDataset) -> bool:
    return True


def _rows_of_equal_samples(inspected: InspectedDataset, inputs: Inputs) -> bool:
    return len(inputs) == 1 and rows_are_independent(inputs[0].element_spec)


def _rows_of_fixed_shapes(inspected: InspectedDataset, inputs: Inputs) -> bool:
    shapes = tf.nest.flatten(inspected.argument("padded_shapes"))
    return all((shape.numpy() >= 0).all() for shape in shapes)


def _parameters(
    size_argument: str = "batch_size",
    independent: Callable[[InspectedDataset, Inputs], bool] = _rows_of_equal_samples,
) -> Callable[[InspectedDataset, Inputs], BatchParameters]:
    """Return a function that reads the parameters of a batch."""

    def read(inspected: InspectedDataset, inputs: Inputs) -> BatchParameters:
        size = inspected.value(size_argument)
        size = size if isinstance(size, int) else None
        drop_remainder = bool(inspected.value("drop_remainder"))
        if not independent(inspected, inputs):
            return BatchParameters(size, drop_remainder, False, None)
        sample_bytes = row_bytes(inspected.dataset.element_spec)
        return BatchParameters(size, drop_remainder, True, sample_bytes)

    return read


CLASSES = (
    DatasetClass(
        "BatchDataset",
        "batch",
        Kind.BATCH,
        by_method("batch", "batch_size", "drop_remainder"),
        _batch_with_numbers,
        details=shown("batch_size", "drop_remainder"),
        batch=_parameters(),
    ),
    DatasetClass(
        "ParallelBatchDataset",
        "batch",
        Kind.BATCH,
        _parallel_batch,
        _batch_with_numbers,
        details=shown("batch_size", "drop_remainder"),
        batch=_parameters(),
    ),
    DatasetClass(
        _PADDED,
        "padded_batch",
        Kind.PADDED_BATCH,
        by_method(
            "padded_batch", "batch_size", "padded_shapes", "padding_values", "drop_remainder"
        ),
        _batch_with_numbers,
        details=shown("batch_size", "drop_remainder"),
        batch=_parameters(independent=_rows_of_fixed_shapes),
    ),
    DatasetClass(
        "DenseToSparseBatchDataset",
        "sparse_batch",
        Kind.OTHER_BATCH,
        by_method("sparse_batch", "batch_size", "row_shape"),
        details=shown("batch_size"),
        batch=_parameters(),
    ),
    DatasetClass(
        "RebatchDataset",
        "rebatch",
        Kind.OTHER_BATCH,
        by_method("rebatch", "batch_sizes", "drop_remainder"),
        details=shown("batch_sizes", "drop_remainder"),
        batch=_parameters("batch_sizes"),
    ),
    DatasetClass("UnbatchDataset", "unbatch", Kind.UNBATCH, _unbatch),
    DatasetClass("DenseToRaggedDataset", "ragged", Kind.FUNCTION, _ragged, is_map=_always),
)
