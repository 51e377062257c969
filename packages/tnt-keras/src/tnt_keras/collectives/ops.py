"""The operations by which a TensorFlow graph takes part in communication.

Each comes in two halves. *Start* hands a tensor to tnt-comm, *finish* waits for the result. Both
return a token besides, a scalar that only says "has started" or "has finished". Finish blocks one
of TensorFlow's threads, so it takes a `barrier`: the sum of the tokens of all starts that must come
first. An exchange (`tnt_keras.collectives.exchange`) builds it; nothing else calls these
operations. They are not stateful, so that TensorFlow runs a start as soon as its input exists.
Therefore it would also compute a start of constants once and for all, when it optimises the graph:
one input of every start must not be a constant.
"""

from __future__ import annotations

import functools

import tensorflow as tf

import tnt_comm
from tnt_keras.process.op_library import op_library


def start_reduce(
    value: tf.Tensor, scale: tf.Tensor, reducer: tnt_comm.GradientReducer, tensor_id: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Start the sum over all ranks of `scale * value`, without waiting. Local.

    If no other operation reads a large `value`, the sum is formed in its memory.

    Args:
        value: Tensor of any shape, of the size and dtype planned for `tensor_id`.
        scale: float64 scalar. Where it is 0 the contribution is 0, even if `value` is not finite.
            Not a constant of the graph.
        reducer: Holds the plan.
        tensor_id: Number of the tensor in the plan.

    Returns:
        The token, an int32 scalar, and the tensor that only `finish_reduce` may read.
    """
    token, pending = op_library().tnt_start_reduce(
        value, scale, reducer=reducer.handle, tensor_id=tensor_id
    )
    pending.set_shape(value.shape)
    return token, pending


def finish_reduce(
    pending: tf.Tensor, barrier: tf.Tensor, reducer: tnt_comm.GradientReducer, tensor_id: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Wait for the sum that `start_reduce` began. Collective.

    Args:
        pending: The tensor returned by `start_reduce`.
        barrier: int32 scalar, see the module's text.
        reducer: As given to `start_reduce`.
        tensor_id: As given to `start_reduce`.

    Returns:
        The token, an int32 scalar, and the sum, of the shape and dtype of `pending`, bitwise the
        same on every rank.

    Raises:
        tf.errors.OpError: When the step runs, if the collective fails: `UnavailableError` if a
            rank was lost, `DeadlineExceededError` at the deadline, `AbortedError` if ranks called
            different things.
    """
    token, total = op_library().tnt_finish_reduce(
        pending, barrier, reducer=reducer.handle, tensor_id=tensor_id
    )
    total.set_shape(pending.shape)
    return token, total


def start_gather(rows: tf.Tensor, presence: tf.Tensor, gatherer: tnt_comm.Gatherer) -> tf.Tensor:
    """Start the concatenation of the rows of all ranks, without waiting. Local.

    Args:
        rows: Tensor of shape `(k, ...)`; `k` may differ between ranks and be 0.
        presence: float64 scalar. Where it is 0 no rows are sent. Not a constant of the graph.
        gatherer: Keeps this collective apart from all others.

    Returns:
        The token, an int32 scalar.
    """
    return op_library().tnt_start_gather(rows, presence, gatherer=gatherer.handle)


def finish_gather(
    rows: tf.Tensor, barrier: tf.Tensor, gatherer: tnt_comm.Gatherer
) -> tuple[tf.Tensor, tf.Tensor]:
    """Wait for the rows that `start_gather` began to collect. Collective.

    Args:
        rows: The tensor given to `start_gather`.
        barrier: int32 scalar, see the module's text.
        gatherer: As given to `start_gather`.

    Returns:
        The token, an int32 scalar, and a tensor of shape `(sum of all k, ...)`, in rank order.

    Raises:
        tf.errors.OpError: When the step runs, as `finish_reduce` does.
    """
    token, all_rows = op_library().tnt_finish_gather(rows, barrier, gatherer=gatherer.handle)
    all_rows.set_shape([None, *rows.shape[1:]])
    return token, all_rows


def one() -> tf.Tensor:
    """Return 1 as a float64 scalar that is not a constant of a graph, for starts. Local."""
    return _one().read_value()


@functools.cache
def _one() -> tf.Variable:
    """Return a variable that holds 1, which TensorFlow cannot fold into a constant."""
    with tf.init_scope():
        return tf.Variable(1.0, trainable=False, dtype=tf.float64, name="tnt_one")
