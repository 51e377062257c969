"""Transformations that store elements. Two processes cannot write one file: each has its own."""

from __future__ import annotations

import tensorflow as tf

from tnt_data.description.transformation import Kind
from tnt_data.tensorflow_private import InspectedDataset
from tnt_data.transformations.dataset_class import Changes, DatasetClass, Inputs
from tnt_data.transformations.raw_operations import by_operation


def _file(inspected: InspectedDataset) -> str:
    path = inspected.argument("filename", inspected.argument("path", ""))
    if tf.is_tensor(path):
        path = path.numpy()
    return path.decode() if isinstance(path, bytes) else str(path)


def _details(inspected: InspectedDataset) -> list[str]:
    file = _file(inspected)
    return [repr(file)] if file else []


def _cache(inspected: InspectedDataset, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    file = _file(inspected)
    own_file = file + changes.cache_suffix if file else ""
    return inputs[0].cache(own_file, name=inspected.argument("name"))


def _snapshot(inspected: InspectedDataset, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    reader, shard = (traced.function for traced in inspected.functions)
    return by_operation(
        inspected,
        inputs[0],
        tf.raw_ops.SnapshotDatasetV2,
        path=_file(inspected) + changes.cache_suffix,
        reader_func=reader,
        reader_func_other_args=reader.captured_inputs,
        shard_func=shard,
        shard_func_other_args=shard.captured_inputs,
        compression=inspected.argument("compression"),
    )


CLASSES = (
    DatasetClass("CacheDataset", "cache", Kind.CACHE, _cache, details=_details, file=_file),
    DatasetClass(
        "SnapshotDataset", "snapshot", Kind.CACHE, _snapshot, details=_details, file=_file
    ),
)
