"""What several replicas of one process give, combined as if each were a process of its own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tnt_keras.process.comm_interface import REDUCTIONS
from tnt_keras.process.fences import fenced
from tnt_keras.process.framework import op_library
from tnt_keras.process.sum_order import in_order_of_ranks

_HALVES = {tf.float16, tf.bfloat16}
_REALS = {tf.complex64: tf.float32, tf.complex128: tf.float64}
_UNSIGNED = {tf.uint16, tf.uint32, tf.uint64}
# Of what tnt-comm does not have: whole numbers, which no order changes, and products of complex
# numbers, which TensorFlow forms between processes too.
_OF_TENSORFLOW: dict[str, Callable[[Any, Any], Any]] = {
    "sum": tf.add,
    "prod": tf.multiply,
    "max": tf.maximum,
    "min": tf.minimum,
}


def combined(parts: Sequence[tf.Tensor], reduction: str) -> tf.Tensor:
    """Combine values of replicas that are a branch of the tree of all, in the order of that tree.

    tnt-comm combines neighbours first, in groups of the smallest prime factor: `(x0 + x1) + (x2 +
    x3)` for four, `((x0 + x1) + (x2 + x3)) + (x4 + x5)` for six. It does so here, with the
    arithmetic that it has between processes.

    The parts have one shape and dtype, which is that of the result, and are no 16-bit floats, see
    `widened`. `reduction` is "sum", "prod", "max", "min", "and" or "or", element by element.
    """
    dtype = parts[0].dtype
    if len(parts) == 1:
        return parts[0]
    if dtype in _REALS and reduction == "sum":
        reals = [tf.bitcast(part, _REALS[dtype]) for part in parts]
        return tf.bitcast(combined(reals, reduction), dtype)
    if dtype in _REALS or dtype in _UNSIGNED:
        return in_order_of_ranks(list(map(fenced, parts)), _OF_TENSORFLOW[reduction])
    # Two at a time: where lanes follow one another, no more of their gradients live than needed.
    return in_order_of_ranks(parts, functools.partial(_pair, REDUCTIONS.index(reduction)))


def _pair(operation: int, first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    result: tf.Tensor = op_library().tnt_combine(values=[first, second], op=operation)
    result.set_shape(first.shape)
    return result


def widened(parts: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Return 16-bit floats as float32: a total of them is rounded once, when all are combined."""
    return [tf.cast(part, tf.float32) if part.dtype in _HALVES else part for part in parts]
