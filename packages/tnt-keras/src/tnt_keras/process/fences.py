"""Operations that give the tensor they are given, past which TensorFlow optimises nothing.

TensorFlow fuses and moves operations where it optimises a graph. A process with all lanes has
operations where another one has an exchange: without these it would compute in another way.
"""

from __future__ import annotations

import tensorflow as tf

from tnt_keras.process.framework import op_library


def fenced(tensor: tf.Tensor) -> tf.Tensor:
    """Return a tensor as if it came from an exchange: TensorFlow knows no shape of it. Local."""
    result: tf.Tensor = op_library().tnt_fence(tensor)
    result.set_shape(tensor.shape)
    return result


def lane_input(tensor: tf.Tensor) -> tf.Tensor:
    """Return an input of a lane, with which the lane begins. Local."""
    result: tf.Tensor = op_library().tnt_lane_input(tensor)
    result.set_shape(tensor.shape)
    return result
