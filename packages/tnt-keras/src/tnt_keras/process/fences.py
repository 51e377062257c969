"""Operations that give the tensor they are given, past which TensorFlow optimises nothing.

TensorFlow fuses and moves operations where it optimises a graph, and how depends on who reads their
results. A process with all lanes has operations where another one has an exchange, and several
readers where another one has one: without these it would compute in another way.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from tnt_keras.process.framework import op_library


def fenced(tensor: tf.Tensor) -> tf.Tensor:
    """Return a tensor as if it came from an exchange: TensorFlow knows no shape of it. Local."""
    result: tf.Tensor = op_library().tnt_fence(tensor)
    result.set_shape(tensor.shape)
    return result


def lane_input(tensor: tf.Tensor) -> tf.Tensor:
    """Return what one lane reads, or several: to what is before, it is one reader. Local."""
    result: tf.Tensor = op_library().tnt_lane_input(tensor)
    result.set_shape(tensor.shape)
    return result


def first_of_lanes(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """Return the tensor of the first lane, where lanes are alike: all are read. Local."""
    result: tf.Tensor = op_library().tnt_first(values=list(tensors))
    result.set_shape(tensors[0].shape)
    return result
