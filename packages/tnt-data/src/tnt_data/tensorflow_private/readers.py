"""Repeats steps that read the files whose names are their input."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tnt_data.tensorflow_private.changes import Changes, Inputs, Replay


def _text_lines(step: Any, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    return tf.data.TextLineDataset(
        inputs[0],
        compression_type=step._compression_type,
        buffer_size=step._buffer_size,
        **_parallel_reads(step),
    )


def _records(step: Any, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    return tf.data.TFRecordDataset(
        inputs[0],
        compression_type=step._compression_type,
        buffer_size=step._buffer_size,
        **_parallel_reads(step),
    )


def _parallel_reads(step: Any) -> dict[str, Any]:
    cycle_length = getattr(step._impl, "_cycle_length", None)
    return {"num_parallel_reads": None if cycle_length is None else int(cycle_length)}


READERS: dict[str, Replay] = {"TextLineDatasetV2": _text_lines, "TFRecordDatasetV2": _records}
"""How to repeat a reader, by the name of its class."""
