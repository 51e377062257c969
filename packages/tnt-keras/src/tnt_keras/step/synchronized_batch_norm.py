"""The mean and variance of the global batch for `BatchNormalization(synchronized=True)`.

Rank r computes of its own rows, for each channel, the number n_r of values, their mean m_r and
their squared distances q_r from it. These are exchanged as sums,

    N = sum_r n_r,    S = sum_r n_r * m_r,    Q = sum_r (q_r + n_r * m_r ** 2),

in double precision, so that the differences below cost no digits of what single precision holds:

    mean = S / N,    variance = (Q - 2 * mean * S + N * mean ** 2) / N.

Gradients flow through mean and variance to the rows of all ranks, in one more exchange.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from tnt_keras.keras_hooks.private import replaced_batch_moments
from tnt_keras.step.across_ranks import sums_over_ranks
from tnt_keras.step.context import Step, current_step

Moments = tuple[tf.Tensor, tf.Tensor]


@contextlib.contextmanager
def synchronized_batch_norm(step: Step) -> Iterator[None]:
    """Let layers with `synchronized=True` take the moments of the global batch in a block. Local.

    Args:
        step: The current step.
    """

    def replace(plain: Callable[..., Moments]) -> Callable[..., Moments]:
        @functools.wraps(plain)
        def moments(layer: Any, inputs: tf.Tensor, mask: tf.Tensor | None) -> Moments:
            if not layer.synchronized or current_step() is not step:
                return plain(layer, inputs, mask)
            return _moments_of_all_ranks(inputs, mask, layer.axis % inputs.shape.rank, step)

        return moments

    with replaced_batch_moments(replace):
        yield


def _moments_of_all_ranks(
    inputs: tf.Tensor, mask: tf.Tensor | None, axis: int, step: Step
) -> Moments:
    """Return mean and variance of each channel over the rows of all ranks. Collective.

    Args:
        inputs: Of the layer, in the dtype in which it computes.
        mask: Which values count, of the shape of `inputs` without its last dimension.
        axis: Of the channels.
        step: The current step.
    """
    count, mean, squares = (tf.cast(each, tf.float64) for each in _of_rank(inputs, mask, axis))
    sums = [count, count * mean, squares + count * mean**2]
    function = "BatchNormalization(synchronized=True)"
    count, total, total_square = sums_over_ranks(sums, function, step)
    # Keras divides masked sums so, and what is without mask by the plain count.
    divisor = count if mask is None else count + keras.config.epsilon()
    mean = total / divisor
    squares = total_square - 2.0 * mean * total + count * mean**2
    variance = tf.maximum(squares / divisor, 0.0)
    return tf.cast(mean, inputs.dtype), tf.cast(variance, inputs.dtype)


def _of_rank(inputs: tf.Tensor, mask: tf.Tensor | None, axis: int) -> list[tf.Tensor]:
    """Return number, mean, and squared distances from the mean, for each channel of this rank."""
    others = [other for other in range(inputs.shape.rank) if other != axis]
    num_channels = inputs.shape[axis]
    if mask is None:
        count = tf.fill([num_channels], tf.size(inputs, tf.int64) // num_channels)
        mean = tf.reduce_mean(inputs, others, keepdims=True)
        distances = inputs - mean
    else:
        counts = tf.broadcast_to(tf.cast(mask, tf.bool)[..., tf.newaxis], tf.shape(inputs))
        count = tf.reduce_sum(tf.cast(counts, tf.int64), others)
        total = tf.reduce_sum(tf.where(counts, inputs, 0.0), others, keepdims=True)
        shape = tf.shape(total)
        mean = tf.math.divide_no_nan(total, tf.cast(tf.reshape(count, shape), inputs.dtype))
        distances = tf.where(counts, inputs - mean, 0.0)
    sums = [count, tf.squeeze(mean, others), tf.reduce_sum(tf.square(distances), others)]
    return [tf.ensure_shape(each, [num_channels]) for each in sums]
