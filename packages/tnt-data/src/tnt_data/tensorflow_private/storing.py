"""Repeats steps that store elements. Two processes cannot write the same file: each has its own."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tnt_data.tensorflow_private.changes import Changes, Inputs, Replay
from tnt_data.tensorflow_private.repeating import repeat_on


def file_of(step: Any) -> str:
    """Where a step stores elements; empty for memory, and for steps that do not store. Local."""
    path: Any = getattr(step, "_filename", getattr(step, "_path", ""))
    if tf.is_tensor(path):
        path = path.numpy()
    return path.decode() if isinstance(path, bytes) else str(path)


def _cache(step: Any, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    name = file_of(step)
    return inputs[0].cache(name + changes.cache_suffix if name else "", name=step._name)


def _snapshot(step: Any, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    reader, shard = step._reader_func.function, step._shard_func.function
    return repeat_on(
        step,
        inputs[0],
        tf.raw_ops.SnapshotDatasetV2,
        path=file_of(step) + changes.cache_suffix,
        reader_func=reader,
        reader_func_other_args=reader.captured_inputs,
        shard_func=shard,
        shard_func_other_args=shard.captured_inputs,
        compression=step._compression,
    )


STORES: dict[str, Replay] = {"CacheDataset": _cache, "_SnapshotDataset": _snapshot}
"""How to repeat a step that stores elements, by the name of its class."""
