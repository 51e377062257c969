"""Pick the rows of one rank before they are joined to a batch, so that others cost nothing.

The samples of one global batch are collected in a window, which holds references and copies
nothing. The window knows how many samples it has, also at the end of a pipeline of unknown length,
and always passes on the rows of one micro-batch: for each lane `v` of the rank, lane after lane,
`window[v::lanes]`. To go through references once per lane costs next to nothing. Of the windows
only the last can be short. So when the rows of all windows are joined in batches as large as those
of a full window, every batch holds the rows of one window, and steps, and their number, are those
of the serial pipeline.

Each row carries a few numbers about its global batch through the transformations between pick and
batch; the micro-batch gets its own from them.
"""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf

from tnt_data.description.transformation import BatchParameters, Transformation
from tnt_data.elements.fingerprints import fingerprint_of_all, no_fingerprint
from tnt_data.elements.micro_batch import MicroBatch
from tnt_data.elements.row_split import RowSplit
from tnt_data.rank_dataset.take_rows import first_row_of, num_rows_of
from tnt_data.transformations.batches import batch_like


def pick_rows(
    samples: tf.data.Dataset, batch: Transformation, split: RowSplit, with_fingerprint: bool
) -> tf.data.Dataset:
    """Pick a rank's rows from single samples, as `(numbers, sample)`. Local."""
    # The numbers are an int64 vector of `num_global` and the fingerprint of the global batch, or 0.
    batch_size, drop_remainder = _size_of(batch)
    is_tuple = type(samples.element_spec) is tuple

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def pick(*arguments: Any) -> tf.data.Dataset:
        window = tf.data.Dataset.zip(arguments if is_tuple else arguments[0])
        num_global = window.cardinality()
        first = window.skip(first_row_of(split, num_global)).shard(split.lanes, 0)
        others = (window.shard(split.lanes, lane) for lane in split.own_lanes[1:])
        rows = functools.reduce(tf.data.Dataset.concatenate, others, first)
        fingerprint = fingerprint_of_all(window) if with_fingerprint else no_fingerprint()
        numbers = tf.data.Dataset.from_tensors(tf.stack([num_global, fingerprint]))
        return tf.data.Dataset.zip((numbers.repeat(), rows))

    return samples.window(batch_size, drop_remainder=drop_remainder).flat_map(pick)


def open_windows(source: tf.data.Dataset) -> tf.data.Dataset:
    """Turn `(numbers, window)` into `(numbers, element)` for all elements of windows. Local."""

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def elements(numbers: tf.Tensor, window: Any) -> tf.data.Dataset:
        repeated = tf.data.Dataset.from_tensors(numbers).repeat()
        return tf.data.Dataset.zip((repeated, tf.data.Dataset.zip(window)))

    return source.flat_map(elements)


def join_rows(rows: tf.data.Dataset, batch: Transformation, split: RowSplit) -> tf.data.Dataset:
    """Join the rows of `pick_rows` to micro-batches, one for each serial batch. Local."""
    batch_size, _ = _size_of(batch)

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def count(numbers: tf.Tensor, data: Any) -> MicroBatch:
        num_global, fingerprint = tf.unstack(numbers[0])
        return MicroBatch(data, num_rows_of(split, num_global), num_global, fingerprint)

    num_rows = len(split.rows(batch_size))
    joined = batch_like(batch.dataset, rows, num_rows).map(count)
    num_steps = batch.dataset.cardinality()
    if int(num_steps) == tf.data.UNKNOWN_CARDINALITY:
        return joined
    return joined.apply(tf.data.experimental.assert_cardinality(num_steps))


def _size_of(batch: Transformation) -> tuple[int, bool]:
    assert isinstance(batch.batch, BatchParameters)
    assert batch.batch.batch_size is not None
    return batch.batch.batch_size, batch.batch.drop_remainder
