"""From the element that a step receives to the part that this rank computes."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tnt_data import MicroBatch
from tnt_keras.step import Step


def split(data: Any, rank: int, size: int) -> tuple[Any, Step]:
    """Returns this rank's rows of an element, and the step that describes them. Local.

    `fit`, `evaluate` and `predict` feed micro-batches that tnt-data has split. Anything else, such
    as the arguments of `train_on_batch`, is a global batch, the same on all ranks, of which rank r
    takes the rows r, r + n, r + 2n, ... A rank without rows takes the first one as a stand-in.

    Args:
        data: A `MicroBatch`, or any structure of tensors of shape `(batch, ...)`.
        rank: Rank of the caller.
        size: Number of ranks.

    Returns:
        The rows, in the structure of the element, and the step.
    """
    if isinstance(data, MicroBatch):
        return data.data, Step(data.num_local, data.num_global)
    tensors = [leaf for leaf in tf.nest.flatten(data) if leaf is not None]
    num_global = tf.shape(tensors[0], out_type=tf.int64)[0]
    rows = tf.range(tf.constant(rank, tf.int64), num_global, size)
    num_local = tf.size(rows, out_type=tf.int64)
    rows = tf.cond(num_local > 0, lambda: rows, lambda: tf.zeros([1], tf.int64))
    local = tf.nest.map_structure(
        lambda leaf: None if leaf is None else tf.gather(leaf, rows), data
    )
    return local, Step(num_local, num_global)
