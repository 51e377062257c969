"""Repeats steps that store elements. Two processes cannot write the same file: each has its own."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tnt_data.steps.changes import Changes, Inputs, Replay
from tnt_data.steps.repeating import repeat_on
from tnt_data.tensorflow_private import OpenStep


def file_of(step: OpenStep) -> str:
    """Where a step stores elements; empty for memory, and for steps that do not store. Local."""
    path: Any = step.argument("filename", step.argument("path", ""))
    if tf.is_tensor(path):
        path = path.numpy()
    return path.decode() if isinstance(path, bytes) else str(path)


def _cache(step: OpenStep, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    name = file_of(step)
    return inputs[0].cache(name + changes.cache_suffix if name else "", name=step.argument("name"))


def _snapshot(step: OpenStep, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    reader, shard = (traced.function for traced in step.functions)
    return repeat_on(
        step,
        inputs[0],
        tf.raw_ops.SnapshotDatasetV2,
        path=file_of(step) + changes.cache_suffix,
        reader_func=reader,
        reader_func_other_args=reader.captured_inputs,
        shard_func=shard,
        shard_func_other_args=shard.captured_inputs,
        compression=step.argument("compression"),
    )


STORES: dict[str, Replay] = {"cache": _cache, "snapshot": _snapshot}
"""How to repeat a step that stores elements, by its name."""
