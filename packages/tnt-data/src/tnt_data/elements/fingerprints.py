"""Compute a number that is equal on two ranks if, and practically only if, they read the same.

Ranks take rows by their position. So if all of them have read the same global batch, in the same
order, then no sample is used twice and none is missing. Each rank folds what it reads of a global
batch into one number; to compare these numbers is up to the caller. What is folded is what the rows
are picked from: file names or records where decoding was moved to after the pick, otherwise the
finished batch.

With the 64-bit FarmHash `h` of the bytes of a tensor, tensors or samples `t_0, t_1, ...` give

    f_0 = 1,  f_{i+1} = 31 f_i + h(t_i)   (mod 2^64).
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

_FACTOR = 31


def fingerprint_of(element: Any) -> tf.Tensor:
    """Fold an element into one number. Local.

    Args:
        element: Any structure of dense, ragged and sparse tensors; a dataset in it stands for all
            its elements.

    Returns:
        int64 scalar.
    """
    number = tf.constant(1, tf.int64)
    for component in tf.nest.flatten(element):
        number = number * _FACTOR + _fingerprint_of_component(component)
    return number


def fingerprint_of_all(dataset: tf.data.Dataset) -> tf.Tensor:
    """Fold all elements of a dataset into one number, an int64 scalar. Local."""

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def fold(number: tf.Tensor, element: Any) -> tf.Tensor:
        return number * _FACTOR + fingerprint_of(element)

    return dataset.reduce(tf.constant(1, tf.int64), fold)


def no_fingerprint() -> tf.Tensor:
    """Return the value of a fingerprint that was not computed. Local."""
    return tf.constant(0, tf.int64)


def _fingerprint_of_component(component: Any) -> tf.Tensor:
    if isinstance(component, tf.data.Dataset):
        return fingerprint_of_all(component)
    if isinstance(component, (tf.RaggedTensor, tf.SparseTensor)):
        return fingerprint_of(tf.nest.flatten(component, expand_composites=True))
    if component is None or component.dtype in (tf.variant, tf.resource):
        return tf.constant(0, tf.int64)
    data = tf.fingerprint(tf.reshape(component, [1, -1]))
    return tf.bitcast(data, tf.int64)[0]
