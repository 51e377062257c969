"""Readers of files whose names they are given."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tnt_data.description.transformation import Kind
from tnt_data.tensorflow_private import InspectedDataset
from tnt_data.transformations.dataset_class import Changes, DatasetClass, Inputs


def _file_names(inspected: InspectedDataset) -> list[tf.data.Dataset]:
    names = inspected.argument("filenames")
    return [names] if isinstance(names, tf.data.Dataset) else []


def _cycle_length(inspected: InspectedDataset) -> Any:
    """Ask the dataset inside, which interleaves files if several are read at a time."""
    return InspectedDataset(inspected.argument("impl")).value("cycle_length")


def _text_lines(inspected: InspectedDataset, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    return tf.data.TextLineDataset(inputs[0], **_arguments(inspected))


def _records(inspected: InspectedDataset, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    return tf.data.TFRecordDataset(inputs[0], **_arguments(inspected))


def _arguments(inspected: InspectedDataset) -> dict[str, Any]:
    return {
        "compression_type": inspected.argument("compression_type"),
        "buffer_size": inspected.argument("buffer_size"),
        "num_parallel_reads": _cycle_length(inspected),
    }


CLASSES = (
    DatasetClass(
        "TFRecordDatasetV2",
        "TFRecordDataset",
        Kind.SOURCE,
        _records,
        inputs=_file_names,
        cycle_length=_cycle_length,
    ),
    DatasetClass(
        "TextLineDatasetV2",
        "TextLineDataset",
        Kind.SOURCE,
        _text_lines,
        inputs=_file_names,
        cycle_length=_cycle_length,
    ),
    DatasetClass("FixedLengthRecordDatasetV2", "FixedLengthRecordDataset", Kind.SOURCE),
)
