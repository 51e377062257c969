"""Compute batch normalisation in training by one operation of TensorFlow instead of a dozen.

Keras composes it of moments and elementwise operations, whose intermediate results backpropagation
reads again. `FusedBatchNormV3` gives the same numbers to rounding with less memory traffic. It is
taken where it can be: for images (4 dimensions) with channels last or first, without mask. All
else, and inference, which is one multiplication and one addition, stay with Keras.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from tnt_keras.keras_hooks.patch import replaced
from tnt_keras.step.context import current_step

_DATA_FORMATS = {1: "NCHW", 3: "NHWC"}  # by the axis of the channels
_DTYPES = frozenset({tf.float16, tf.bfloat16, tf.float32})
_LEAST_EPSILON = 1.001e-5  # that of cuDNN


@contextlib.contextmanager
def fused_batch_norm(is_wanted: bool = True) -> Iterator[None]:
    """Fuse `keras.layers.BatchNormalization` in a with-block, where it trains. Local.

    Layers keep their weights. Moving variances are of the biased variance, as in Keras.

    Args:
        is_wanted: If not, nothing happens.
    """
    if not is_wanted:
        yield
        return
    plain = keras.layers.BatchNormalization.call
    with replaced(keras.layers.BatchNormalization, "call", _fusing(plain)):
        yield


def _fusing(plain: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def call(self: Any, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        if training and self.trainable and mask is None and _can_be_fused(self, inputs):
            return _fused(self, inputs)
        return plain(self, inputs, training=training, mask=mask)

    return call


def _can_be_fused(layer: Any, inputs: Any) -> bool:
    if type(layer) is not keras.layers.BatchNormalization:  # it may have moments of its own
        return False
    if layer.synchronized and current_step() is not None:  # which exchanges them
        return False
    return (
        isinstance(inputs, tf.Tensor)
        and inputs.shape.rank == 4
        and layer.axis % 4 in _DATA_FORMATS
        and inputs.dtype in _DTYPES
        and layer.epsilon >= _LEAST_EPSILON
        and not getattr(layer, "renorm", False)  # older versions of Keras have none
    )


def _fused(layer: Any, inputs: tf.Tensor) -> Any:
    """Return the output of a layer that trains, and move its statistics, as Keras does. Local."""
    axis = layer.axis % 4
    num_channels = inputs.shape[axis]
    scale = keras.ops.cast(layer.gamma, "float32") if layer.scale else tf.ones([num_channels])
    offset = keras.ops.cast(layer.beta, "float32") if layer.center else tf.zeros([num_channels])
    outputs, mean, variance, *_ = tf.raw_ops.FusedBatchNormV3(
        x=tf.cast(inputs, tf.float32),
        scale=scale,
        offset=offset,
        mean=tf.zeros([0]),
        variance=tf.zeros([0]),
        epsilon=layer.epsilon,
        data_format=_DATA_FORMATS[axis],
        is_training=True,
    )
    _move(layer.moving_mean, mean, layer.momentum)
    _move(layer.moving_variance, _biased(variance, inputs, num_channels), layer.momentum)
    return keras.ops.cast(outputs, layer.compute_dtype)


def _biased(variance: tf.Tensor, inputs: tf.Tensor, num_channels: int) -> tf.Tensor:
    """Return the mean squared distance, of the sum divided by one less that TensorFlow gives."""
    count = tf.cast(tf.size(inputs, tf.int64) // num_channels, tf.float32)
    # Of a single value TensorFlow may have divided by zero.
    return tf.math.multiply_no_nan(variance, (count - 1.0) / count)


def _move(variable: Any, value: tf.Tensor, momentum: float) -> None:
    before = keras.ops.cast(variable, "float32")
    variable.assign(before * momentum + value * (1.0 - momentum))
