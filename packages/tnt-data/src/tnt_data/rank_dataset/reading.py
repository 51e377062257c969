"""How TensorFlow reads a dataset: how far ahead, and whether it tunes that while it reads."""

from __future__ import annotations

import tensorflow as tf

from tnt_data.transformations.read import read_transformations


def without_prefetch(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Return the dataset before its last `prefetch`, without automatic prefetching. Local.

    Elements that are read ahead of an iterator that then ends are lost. How many depends on chance,
    so it matters if elements come from something that continues from one pass to the next.

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


def without_autotuning(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Return the dataset with fixed settings instead of `tf.data.AUTOTUNE`. Local.

    TensorFlow tunes them in a thread that looks after 10 ms, 20 ms, ... up to once a minute. An
    iterator that is deleted wakes that thread before it tells it to end; where the thread is the
    quicker of the two, it sleeps again, and the deletion waits for the rest of the period with
    nothing to compute. That is one pass of ten on an idle host, and every second one where a
    process has a core of its own; with many ranks, there is nearly always one for which the others
    wait. Without tuning, `AUTOTUNE` is the size of the thread pool, at most 16, for parallel calls,
    and a buffer that grows on demand for `prefetch`.

    Args:
        dataset: Any dataset. One whose options say whether to tune stays as it is.
    """
    if dataset.options().autotune.enabled is not None:
        return dataset
    options = tf.data.Options()
    options.autotune.enabled = False
    fixed: tf.data.Dataset = dataset.with_options(options)
    return fixed
