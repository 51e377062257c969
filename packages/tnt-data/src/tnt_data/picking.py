"""The cheap way: take the rows of one rank before they are joined, so that others are never copied.

The samples of one global batch are collected in a window, which holds references and copies
nothing. The window knows how many samples it has, also at the end of a pipeline of unknown length,
and always makes exactly one micro-batch: `window[first::size]` with the `first` of
`tnt_data.slicing`. Hence the steps, and their number, are those of the serial pipeline.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tnt_data.arithmetic import row_positions
from tnt_data.micro_batch import MicroBatch
from tnt_data.pipeline import BatchParameters, Step
from tnt_data.tensorflow_private import batch_like, num_parallel_calls


def pick_rows(samples: tf.data.Dataset, step: Step, rank: int, size: int) -> tf.data.Dataset:
    """Micro-batches of one rank from a dataset of single samples. Local.

    Args:
        samples: Yields dense samples of known shapes, any structure.
        step: The step that joins samples in the serial pipeline, of kind `BATCH` or `PADDED_BATCH`.
        rank: Rank of the caller, `0 <= rank < size`.
        size: Number of ranks.

    Returns:
        Dataset of `MicroBatch`, one for each batch of the serial pipeline.
    """
    assert isinstance(step.batch, BatchParameters)
    assert step.batch.batch_size is not None
    batch_size, drop_remainder = step.batch.batch_size, step.batch.drop_remainder
    num_rows = len(row_positions(batch_size, rank, size))
    is_tuple = type(samples.element_spec) is tuple

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def join(*arguments: Any) -> MicroBatch:
        window = tf.data.Dataset.zip(arguments if is_tuple else arguments[0])
        num_global = window.cardinality()
        first = tf.where(rank < num_global, tf.constant(rank, tf.int64), tf.constant(0, tf.int64))
        rows = batch_like(step.handle, window.skip(first).shard(size, 0), num_rows)
        num_local = tf.maximum(num_global - rank + size - 1, 0) // size
        return MicroBatch(rows.get_single_element(), num_local, num_global)

    windows = samples.window(batch_size, drop_remainder=drop_remainder)
    parallel = num_parallel_calls(step.handle)
    if parallel is None:
        return windows.map(join)
    return windows.map(join, num_parallel_calls=parallel, deterministic=True)
