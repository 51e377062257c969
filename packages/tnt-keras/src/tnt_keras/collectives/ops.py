"""The operations by which a TensorFlow graph takes part in communication.

Most come in two halves. *Start* hands a tensor to tnt-comm, *finish* waits for the result. Both
return a token besides, a scalar that only says "has started" or "has finished". Finish blocks one
of TensorFlow's threads, so it takes a `barrier`: the sum of the tokens of all starts that must come
first. An exchange (`tnt_keras.collectives.step_exchange`) builds it; nothing else calls
these operations. They are not stateful, so that TensorFlow runs a start as soon as its input
exists. Therefore it would also compute a start of constants once and for all, when it optimises the
graph: one input of every start must not be a constant.

Those that do all at once, `allreduce`, `gather` and `broadcast`, are stateful: each runs exactly as
often as the graph comes to it, also in a branch or loop, whoever reads its result. They take the
token of what must come before them on all ranks.

Operations may have a label and a caller, see `Label`.
"""

from __future__ import annotations

import dataclasses
import functools

import tensorflow as tf

import tnt_comm
from tnt_keras.process.op_library import op_library

_REDUCTIONS = ("sum", "prod", "min", "max", "and", "or")
"""Of tnt-comm's C interface, in the order of their numbers."""


@dataclasses.dataclass(frozen=True)
class Label:
    """What an operation says about its call.

    Attributes:
        text: What the call is for. Ranks compare it, with the shape that must be the same: if it
            differs, all of them fail.
        caller: Where the call stems from. Messages show it, and the timeline.
    """

    text: str = ""
    caller: str = ""

    @property
    def attributes(self) -> dict[str, str]:
        """The attributes of the operation."""
        return {"label": self.text, "caller": self.caller}


NO_LABEL = Label()


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


def start_gather(
    rows: tf.Tensor, presence: tf.Tensor, gatherer: tnt_comm.Gatherer, label: Label = NO_LABEL
) -> tf.Tensor:
    """Start the concatenation of the rows of all ranks, without waiting. Local.

    Args:
        rows: Tensor of shape `(k, ...)`, of any dtype but resource and variant; `k` may differ
            between ranks and be 0.
        presence: float64 scalar. Where it is 0 no rows are sent. Not a constant of the graph.
        gatherer: Keeps this collective apart from all others.
        label: Of the call.

    Returns:
        The token, an int32 scalar.
    """
    return op_library().tnt_start_gather(
        rows, presence, gatherer=gatherer.handle, **label.attributes
    )


def finish_gather(
    rows: tf.Tensor, barrier: tf.Tensor, gatherer: tnt_comm.Gatherer, label: Label = NO_LABEL
) -> tuple[tf.Tensor, tf.Tensor]:
    """Wait for the rows that `start_gather` began to collect. Collective.

    Args:
        rows: The tensor given to `start_gather`.
        barrier: int32 scalar, see the module's text.
        gatherer: As given to `start_gather`.
        label: As given to `start_gather`.

    Returns:
        The token, an int32 scalar, and a tensor of shape `(sum of all k, ...)`, in rank order.

    Raises:
        tf.errors.OpError: When the step runs, as `finish_reduce` does.
    """
    token, all_rows = op_library().tnt_finish_gather(
        rows, barrier, gatherer=gatherer.handle, **label.attributes
    )
    all_rows.set_shape([None, *rows.shape[1:]])
    return token, all_rows


def gather(
    rows: tf.Tensor, after: tf.Tensor, gatherer: tnt_comm.Gatherer, label: Label
) -> tuple[tf.Tensor, tf.Tensor]:
    """Concatenate the rows of all ranks. Collective.

    Args:
        rows: As for `start_gather`.
        after: int32 scalar, see the module's text.
        gatherer: May serve all operations that come one after the other.
        label: Of the call.

    Returns:
        As `finish_gather`.

    Raises:
        tf.errors.OpError: When the step runs, as `finish_reduce` does.
    """
    token, all_rows = op_library().tnt_gather(
        rows, after, gatherer=gatherer.handle, **label.attributes
    )
    all_rows.set_shape([None, *rows.shape[1:]])
    return token, all_rows


def start_broadcast(
    value: tf.Tensor, presence: tf.Tensor, gatherer: tnt_comm.Gatherer, label: Label
) -> tf.Tensor:
    """Start to give all ranks the tensor of rank 0, without waiting. Local.

    Args:
        value: Tensor of any dtype but resource and variant, the same dtype on all ranks. The shape
            is that of rank 0.
        presence: float64 scalar, any but a constant of the graph.
        gatherer: Keeps this collective apart from all others.
        label: Of the call.

    Returns:
        The token, an int32 scalar.
    """
    return op_library().tnt_start_broadcast(
        value, presence, gatherer=gatherer.handle, **label.attributes
    )


def finish_broadcast(
    value: tf.Tensor, barrier: tf.Tensor, gatherer: tnt_comm.Gatherer, label: Label
) -> tuple[tf.Tensor, tf.Tensor]:
    """Wait for the tensor of rank 0. Collective.

    Args:
        value: As given to `start_broadcast`.
        barrier: int32 scalar, see the module's text.
        gatherer: As given to `start_broadcast`.
        label: As given to `start_broadcast`.

    Returns:
        The token, an int32 scalar, and the tensor.

    Raises:
        tf.errors.OpError: When the step runs, as `finish_reduce` does.
    """
    token, of_rank_0 = op_library().tnt_finish_broadcast(
        value, barrier, gatherer=gatherer.handle, **label.attributes
    )
    return token, of_rank_0


def broadcast(
    value: tf.Tensor, after: tf.Tensor, gatherer: tnt_comm.Gatherer, label: Label
) -> tuple[tf.Tensor, tf.Tensor]:
    """Give all ranks the tensor of rank 0. Collective.

    Args:
        value: As for `start_broadcast`.
        after: int32 scalar, see the module's text.
        gatherer: As for `gather`.
        label: Of the call.

    Returns:
        As `finish_broadcast`.

    Raises:
        tf.errors.OpError: When the step runs, as `finish_reduce` does.
    """
    token, of_rank_0 = op_library().tnt_broadcast(
        value, after, gatherer=gatherer.handle, **label.attributes
    )
    return token, of_rank_0


def allreduce(
    value: tf.Tensor, after: tf.Tensor, reduction: str, label: Label
) -> tuple[tf.Tensor, tf.Tensor]:
    """Combine the tensors of all ranks, element by element. Collective.

    Args:
        value: Tensor of a dtype that tnt-comm has, of the same shape on all ranks.
        after: int32 scalar, see the module's text.
        reduction: "sum", "prod", "min", "max", "and" or "or".
        label: Of the call.

    Returns:
        The token, an int32 scalar, and the result, of the shape and dtype of `value`, bitwise the
        same on every rank.

    Raises:
        tf.errors.OpError: When the step runs, as `finish_reduce` does.
    """
    token, result = op_library().tnt_allreduce(
        value, after, op=_REDUCTIONS.index(reduction), **label.attributes
    )
    result.set_shape(value.shape)
    return token, result


def one() -> tf.Tensor:
    """Return 1 as a float64 scalar that is not a constant of a graph, for starts. Local."""
    return _one().read_value()


def prepare_one() -> None:
    """Make what `one` reads. Local.

    A variable that is made while a function is traced lets TensorFlow trace the function twice.
    """
    _one()


@functools.cache
def _one() -> tf.Variable:
    """Return a variable that holds 1, which TensorFlow cannot fold into a constant."""
    with tf.init_scope():
        return tf.Variable(1.0, trainable=False, dtype=tf.float64, name="tnt_one")
