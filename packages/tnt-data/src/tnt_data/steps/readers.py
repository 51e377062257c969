"""Repeats steps that read the files whose names are their input."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tnt_data.steps.changes import Changes, Inputs, Replay
from tnt_data.tensorflow_private import OpenStep


def _text_lines(step: OpenStep, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    return tf.data.TextLineDataset(inputs[0], **_arguments(step))


def _records(step: OpenStep, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    return tf.data.TFRecordDataset(inputs[0], **_arguments(step))


def _arguments(step: OpenStep) -> dict[str, Any]:
    cycle_length = step.cycle_length
    return {
        "compression_type": step.argument("compression_type"),
        "buffer_size": step.argument("buffer_size"),
        "num_parallel_reads": None if cycle_length is None else int(cycle_length),
    }


READERS: dict[str, Replay] = {"TextLineDataset": _text_lines, "TFRecordDataset": _records}
"""How to repeat a reader, by its name."""
