"""Remove the prefetching at the end of a dataset."""

from __future__ import annotations

import tensorflow as tf

from tnt_data.transformations.read import read_transformations


def without_prefetch(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Return the dataset before its last `prefetch`, without automatic prefetching. Local.

    What is read ahead of an iterator that then ends is lost. How much that is depends on chance, so
    it matters if elements come from something that goes on from one pass to the next.

    Args:
        dataset: Any dataset. With a release of TensorFlow whose transformations are not known, and
            in a `tf.function`, its `prefetch` stays.
    """
    transformation = read_transformations(dataset)
    while transformation.name == "prefetch":
        transformation = transformation.inputs[0]
    options = tf.data.Options()
    options.autotune.enabled = False
    options.experimental_optimization.inject_prefetch = False
    without: tf.data.Dataset = transformation.dataset.with_options(options)
    return without
