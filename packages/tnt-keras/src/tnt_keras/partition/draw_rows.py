"""Draw only the rows of a lane, with the bits that the draw of the whole batch has there.

TensorFlow's stateless draws depend on key, counter and position alone, so what stands in a row is
known without the rows before it. That holds for the generator of CPUs (Philox), and for the
distributions listed here; everything else must be drawn whole and cut. So must what is drawn on
GPUs, whose logarithm and sine round otherwise; they draw fast enough.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import tensorflow as tf

from tnt_keras.process.environment import threads_of_operations
from tnt_keras.process.framework import op_library

_REALS = frozenset({tf.float16, tf.bfloat16, tf.float32, tf.float64})
_SIGNED = frozenset({tf.int32, tf.int64})

DTYPES_OF_DRAWS: Mapping[str, frozenset[tf.DType]] = MappingProxyType(
    {
        "StatelessRandomUniformV2": _REALS,
        "StatelessRandomNormalV2": _REALS,
        "StatelessTruncatedNormalV2": _REALS,
        "StatelessRandomUniformIntV2": _SIGNED,
        "StatelessRandomUniformFullIntV2": _SIGNED | {tf.uint32, tf.uint64},
    }
)
"""The types of operations whose rows can be drawn alone, and the dtypes of each: all that
TensorFlow draws on CPUs."""

_OWN_OPERATIONS = {
    "StatelessRandomUniformV2": "tnt_uniform_rows",
    "StatelessRandomNormalV2": "tnt_normal_rows",
    "StatelessTruncatedNormalV2": "tnt_truncated_normal_rows",
    "StatelessRandomUniformIntV2": "tnt_uniform_int_rows",
    "StatelessRandomUniformFullIntV2": "tnt_uniform_full_int_rows",
}

_PHILOX = {tf.random.Algorithm.PHILOX.value, tf.random.Algorithm.AUTO_SELECT.value}


def draw_rows(
    op_type: str,
    inputs: Sequence[tf.Tensor],
    dtype: tf.DType,
    shape: Sequence[int] | tf.Tensor,
    *,
    lead: int | tf.Tensor,
    rows: int | tf.Tensor,
    first: int,
    step: int,
) -> tf.Tensor | None:
    """Draw every `step`-th row of a global draw from `first` on, None if it must be whole. Local.

    The global draw is seen as `(lead, rows, size of a row)`, whatever its shape is: the result is
    `tf.reshape(draw, [lead, rows, -1])[:, first::step]`, as `shape`. If the rows of the batch are
    row-major between `outer` blocks and `inner` elements of one axis, `lead` is `outer` times all
    dimensions before that axis. `inputs` are those of TensorFlow's operation: the global shape,
    key, counter, algorithm, and perhaps bounds.
    """
    if dtype not in DTYPES_OF_DRAWS.get(op_type, ()) or not _only_cpus():
        return None
    global_shape, key, counter, algorithm, *bounds = inputs
    if not _is_philox(algorithm):
        return None
    draw = getattr(op_library(), _OWN_OPERATIONS[op_type])
    dtype_of_unbounded = {} if bounds else {"dtype": dtype}
    numbers = draw(
        global_shape,
        key,
        counter,
        algorithm,
        *bounds,
        lead=_int64(lead),
        num_rows=_int64(rows),
        first=first,
        step=step,
        max_threads=_max_threads(),
        **dtype_of_unbounded,
    )
    return tf.reshape(numbers, shape)


def _only_cpus() -> bool:
    return all(device.device_type == "CPU" for device in tf.config.list_logical_devices())


def _is_philox(algorithm: tf.Tensor) -> bool:
    value = tf.get_static_value(algorithm)
    return value is not None and int(value) in _PHILOX


def _int64(number: int | tf.Tensor) -> tf.Tensor:
    return tf.cast(number, tf.int64) if tf.is_tensor(number) else tf.constant(number, tf.int64)


@functools.cache
def _max_threads() -> int:
    """Return in how many threads TensorFlow runs its own operations."""
    return (
        tf.config.threading.get_intra_op_parallelism_threads()
        or threads_of_operations()
        or len(os.sched_getaffinity(0))
    )
