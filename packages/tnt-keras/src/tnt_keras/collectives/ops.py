"""The operations by which a TensorFlow graph takes part in communication.

Most come in two halves. *Start* hands a tensor to tnt-comm, *finish* waits for the result. Both
return a token besides, an int32 scalar that only says "has started" or "has finished". Finish
blocks one of TensorFlow's threads, so it takes a `barrier`: the sum of the tokens of all starts
that must come first. An exchange (`tnt_keras.collectives.step_exchange`) builds it; nothing else
calls these operations. They are not stateful, so that TensorFlow runs a start as soon as its input
exists. Therefore it would also compute a start of constants once and for all, when it optimises the
graph: one input of every start must not be a constant.

Those that do all at once, `allreduce` and `at_once`, are stateful: each runs exactly as often as
the graph comes to it, also in a branch or loop, whoever reads its result. They take the token of
what must come before them on all ranks.

Of other kinds than reductions there are two: "gather" concatenates the rows of all ranks in rank
order, tensors of shape `(k, ...)` whose `k` may differ and be 0; "broadcast" gives all ranks the
tensor of rank 0, of whatever shape. Both take any dtype but resource and variant.

When the step runs and a collective fails, all that wait raise a `tf.errors.OpError`:
`UnavailableError` if a rank was lost, `DeadlineExceededError` at the deadline, `AbortedError` if
ranks called different things.
"""

from __future__ import annotations

import dataclasses
import functools

import tensorflow as tf

import tnt_comm
from tnt_keras.process.op_library import op_library

REDUCTIONS = ("sum", "prod", "min", "max", "and", "or")
"""Of tnt-comm's C interface, in the order of their numbers: how two elements become one."""


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
        The token, and the tensor that only `finish_reduce` may read.
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

    Returns:
        The token, and the sum, of the shape and dtype of `pending`, bitwise the same on every rank.
    """
    token, total = op_library().tnt_finish_reduce(
        pending, barrier, reducer=reducer.handle, tensor_id=tensor_id
    )
    total.set_shape(pending.shape)
    return token, total


def start(
    kind: str, value: tf.Tensor, presence: tf.Tensor, gatherer: tnt_comm.Gatherer, label: Label
) -> tf.Tensor:
    """Start a gather or broadcast without waiting, and return the token. Local.

    Args:
        kind: "gather" or "broadcast".
        value: Of this rank.
        presence: float64 scalar, not a constant of the graph. Where it is 0 no rows are gathered.
        gatherer: Keeps this collective apart from all others.
        label: Of the call.
    """
    operation = getattr(op_library(), f"tnt_start_{kind}")
    return operation(value, presence, gatherer=gatherer.handle, **label.attributes)


def finish(
    kind: str, value: tf.Tensor, barrier: tf.Tensor, gatherer: tnt_comm.Gatherer, label: Label
) -> tuple[tf.Tensor, tf.Tensor]:
    """Wait for what `start` began, with the same arguments. Collective.

    Returns:
        The token, and the rows of all ranks or the tensor of rank 0.
    """
    return _after(f"finish_{kind}", kind, value, barrier, gatherer, label)


def at_once(
    kind: str, value: tf.Tensor, after: tf.Tensor, gatherer: tnt_comm.Gatherer, label: Label
) -> tuple[tf.Tensor, tf.Tensor]:
    """Gather or broadcast after a token; arguments and results are those of `finish`. Collective.

    The gatherer may serve all operations that come one after the other.
    """
    return _after(kind, kind, value, after, gatherer, label)


def _after(
    name: str,
    kind: str,
    value: tf.Tensor,
    before: tf.Tensor,
    gatherer: tnt_comm.Gatherer,
    label: Label,
) -> tuple[tf.Tensor, tf.Tensor]:
    operation = getattr(op_library(), f"tnt_{name}")
    token, result = operation(value, before, gatherer=gatherer.handle, **label.attributes)
    if kind == "gather":
        result.set_shape([None, *value.shape[1:]])
    return token, result


def allreduce(
    value: tf.Tensor, after: tf.Tensor, reduction: str, label: Label
) -> tuple[tf.Tensor, tf.Tensor]:
    """Combine the tensors of all ranks, element by element. Collective.

    Args:
        value: Tensor of a dtype that tnt-comm has, of the same shape on all ranks.
        after: The token of what comes before.
        reduction: One of `REDUCTIONS`.
        label: Of the call.

    Returns:
        The token, and the result, of the shape and dtype of `value`, bitwise the same on every
        rank.
    """
    token, result = op_library().tnt_allreduce(
        value, after, op=REDUCTIONS.index(reduction), **label.attributes
    )
    result.set_shape(value.shape)
    return token, result


def run_in_any_case(token: tf.Tensor) -> None:
    """Make a graph compute a token even if nothing needs it. Local.

    A graph drops operations whose tensors nobody reads, also if others wait for them, but runs
    stateful ones always. This one reads the token, and nothing waits for it, so that each result is
    used as soon as it exists.
    """
    if not tf.executing_eagerly():
        tf.debugging.Assert(token >= 0, ["tokens are 0"])


@functools.cache
def variable_of_one() -> tf.Variable:
    """Return a variable that holds 1 as float64, of which starts read no constant. Local.

    A variable that is made while a function is traced lets TensorFlow trace the function twice: the
    first call comes before.
    """
    with tf.init_scope():
        return tf.Variable(1.0, trainable=False, dtype=tf.float64, name="tnt_one")
