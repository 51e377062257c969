"""The operations by which a TensorFlow graph takes part in communication; how each dtype travels.

Most come in two halves. *Start* hands a tensor to tnt-comm, *finish* waits for the result. Both
return a token besides, an int32 scalar 0 that says "has started" or "has finished". Finish blocks
one of TensorFlow's threads, so it takes a `barrier`, the sum of the tokens of all starts that must
come first, which `tnt_keras.exchange.step_exchange` builds. The halves are not stateful, so that
a start runs as soon as its input exists. Hence one input of every start must not be a constant: the
optimiser would compute a start of constants once and for all.

`allreduce` and `at_once` are stateful: each runs exactly as often as the graph comes to it, also in
a branch or loop, whoever reads its result. They take the token of what comes before on all ranks.

"gather" concatenates the rows of all ranks in rank order, tensors of shape `(k, ...)` whose `k` may
differ and be 0; "broadcast" gives all ranks the tensor of rank 0, of whatever shape. Both take any
dtype but resource and variant.

When a collective fails, all that wait raise a `tf.errors.OpError`: `UnavailableError` if a rank was
lost, `DeadlineExceededError` at the deadline, `AbortedError` if ranks called different things.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

import tnt_comm
from tnt_keras.exchange.gpus import placement_of
from tnt_keras.process.comm_interface import REDUCTIONS
from tnt_keras.process.framework import op_library
from tnt_keras.process.rank import get_size
from tnt_keras.process.sum_order import in_order_of_ranks

_FLOATS = {tf.float16, tf.bfloat16, tf.float32, tf.float64}
_INTEGERS = {tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8}
_SIGNED = {tf.uint16: tf.int16, tf.uint32: tf.int32, tf.uint64: tf.int64}
_PARTS = {tf.complex64: tf.float32, tf.complex128: tf.float64}


class Label(NamedTuple):
    """What an operation says about its call: its attributes."""

    label: str = ""  # what the call is for; ranks compare it, with the shape
    caller: str = ""  # where it stems from, for messages and the timeline


@dataclasses.dataclass(frozen=True, eq=False)
class WireForm:
    """What travels in the place of a tensor."""

    kind: str  # a reduction, or "gather" where tensors travel as rows
    value: tf.Tensor  # of a dtype that tnt-comm has, unless gathered
    restore: Callable[[tf.Tensor], tf.Tensor]  # received tensor -> result


def wire_form(kind: str, value: tf.Tensor) -> WireForm:
    """Return what travels for a reduction over ranks. Local.

    Unsigned integers travel as signed ones of the same bits, of which sums and products have the
    same bits, too; for a minimum or maximum the highest bit is flipped, which keeps the order.
    Complex numbers are added up as pairs of reals; for a product all of them travel.
    """
    dtype = value.dtype
    if _is_native(kind, dtype):
        return WireForm(kind, value, lambda result: result)
    if dtype in _SIGNED:
        signed = _SIGNED[dtype]
        highest = tf.constant(signed.min if kind in ("min", "max") else 0, signed)

        def restored(result: tf.Tensor) -> tf.Tensor:
            return tf.bitcast(tf.bitwise.bitwise_xor(result, highest), dtype)

        flipped = tf.bitwise.bitwise_xor(tf.bitcast(value, signed), highest)
        return WireForm(kind, flipped, restored)
    if dtype in _PARTS and kind == "sum":
        return WireForm(kind, tf.bitcast(value, _PARTS[dtype]), lambda x: tf.bitcast(x, dtype))
    if dtype in _PARTS and kind == "prod":
        return WireForm("gather", value[tf.newaxis], _product_of_rows)
    raise TypeError(f"There is no {kind!r} over ranks for tensors of {dtype.name}.")


def _is_native(kind: str, dtype: tf.DType) -> bool:
    if dtype in _FLOATS:
        return kind in ("sum", "prod", "min", "max")
    if dtype == tf.bool:
        return kind in ("min", "max", "and", "or")
    return dtype in _INTEGERS


def _product_of_rows(rows: tf.Tensor) -> tf.Tensor:
    """Return the product in the order in which tnt-comm combines ranks."""
    return in_order_of_ranks(tf.unstack(rows, num=get_size()), operator.mul)


def start_reduce(
    value: tf.Tensor, scale: tf.Tensor, reducer: tnt_comm.GradientReducer, tensor_id: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Start the sum over ranks of `scale * value`; return its token and what waits. Local.

    `scale` is a float64 scalar, no constant of the graph; where it is 0, so is the contribution,
    even of values that are not finite. A large `value` that nothing else reads is summed in its
    memory.
    """
    with placement_of(reducer):
        token, pending = op_library().tnt_start_reduce(
            value, scale, reducer=reducer.handle, tensor_id=tensor_id
        )
    pending.set_shape(value.shape)
    return token, pending


def finish_reduce(
    pending: tf.Tensor, barrier: tf.Tensor, reducer: tnt_comm.GradientReducer, tensor_id: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Wait for a sum: its token, and the sum, bitwise the same on all ranks. Collective."""
    with placement_of(reducer):
        token, total = op_library().tnt_finish_reduce(
            pending, barrier, reducer=reducer.handle, tensor_id=tensor_id
        )
    total.set_shape(pending.shape)
    return token, total


def start(
    kind: str, value: tf.Tensor, presence: tf.Tensor, gatherer: tnt_comm.Gatherer, label: Label
) -> tf.Tensor:
    """Start a gather or broadcast, and return the token. Local.

    `presence` is a float64 scalar, no constant of the graph; where it is 0 no rows are gathered.
    """
    operation = getattr(op_library(), f"tnt_start_{kind}")
    return operation(value, presence, gatherer=gatherer.handle, **label._asdict())


def at_once(
    kind: str,
    value: tf.Tensor,
    after: tf.Tensor,
    gatherer: tnt_comm.Gatherer,
    label: Label,
    prefix: str = "",
) -> tuple[tf.Tensor, tf.Tensor]:
    """Gather or broadcast after a token; in a row, all may use one gatherer. Collective."""
    operation = getattr(op_library(), f"tnt_{prefix}{kind}")
    token, result = operation(value, after, gatherer=gatherer.handle, **label._asdict())
    if kind == "gather":
        result.set_shape([None, *value.shape[1:]])
    return token, result


finish = functools.partial(at_once, prefix="finish_")
"""Wait for what `start` began: its token, and all rows or the tensor of rank 0. Collective."""


def allreduce(
    value: tf.Tensor, after: tf.Tensor, reduction: str, label: Label
) -> tuple[tf.Tensor, tf.Tensor]:
    """Combine tensors of one shape after a token: token and result, the same on all. Collective."""
    token, result = op_library().tnt_allreduce(
        value, after, op=REDUCTIONS.index(reduction), **label._asdict()
    )
    result.set_shape(value.shape)
    return token, result


def run_in_any_case(token: tf.Tensor) -> None:
    """Make a graph compute a token even if nothing needs it. Local.

    A graph drops operations whose tensors nobody reads, also if others wait for them, but no
    stateful ones.
    """
    if not tf.executing_eagerly():
        tf.debugging.Assert(token >= 0, ["tokens are 0"])


@functools.cache
def variable_of_one() -> tf.Variable:
    """Return a variable that holds 1 as float64, of which starts read no constant. Local.

    The first call comes before a trace: a variable made in it lets TensorFlow trace twice.
    """
    with tf.init_scope():
        return tf.Variable(1.0, trainable=False, dtype=tf.float64, name="tnt_one")
