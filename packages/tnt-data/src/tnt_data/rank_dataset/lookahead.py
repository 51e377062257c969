"""Read one element ahead, so that a cache is complete after the first pass on every rank."""

# A cache is complete when its reader has seen the end of the data. A loop that counts its training
# steps does not read up to the end; whether the end is seen then depends on transformations that
# read ahead, and on how fast. An incomplete cache is filled again in the next pass. If a shuffle
# before the cache gives another order in that pass, ranks would have different orders. With one
# element read ahead, the end is seen before the last element is passed on.

from __future__ import annotations

from typing import Any

import tensorflow as tf


def read_one_ahead(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Pass on each element when the next one, or the end, is known. Local."""
    is_tuple = type(dataset.element_spec) is tuple

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def first(*arguments: Any) -> tf.data.Dataset:
        return tf.data.Dataset.zip(arguments if is_tuple else arguments[0]).take(1)

    ahead = dataset.window(2, shift=1).flat_map(first)
    num_elements = dataset.cardinality()
    if int(num_elements) == tf.data.UNKNOWN_CARDINALITY:
        return ahead
    return ahead.apply(tf.data.experimental.assert_cardinality(num_elements))
