"""Takes reading ahead away from a dataset."""

from __future__ import annotations

import tensorflow as tf

from tnt_data.steps import read_pipeline


def without_prefetch(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """The dataset before its last `prefetch`, with nothing read ahead by TensorFlow either. Local.

    What is read ahead of an iterator that then ends is lost. How much that is depends on chance, so
    it matters if elements come from something that goes on from one pass to the next.

    Args:
        dataset: Any dataset. With a release of TensorFlow whose steps are not known, and in a
            `tf.function`, its `prefetch` stays.
    """
    step = read_pipeline(dataset)
    while step.name == "prefetch":
        step = step.inputs[0]
    options = tf.data.Options()
    options.autotune.enabled = False
    options.experimental_optimization.inject_prefetch = False
    without: tf.data.Dataset = step.handle.with_options(options)
    return without
