"""Random numbers: each replica draws its rows of those of the serial run, with the same bits.

TensorFlow's stateless draws depend on key, counter and position alone, so what stands in a row is
known without the rows before it. That holds for the generator of CPUs (Philox), and for the
distributions listed here; everything else must be drawn whole and cut. So must what is drawn on
GPUs, whose logarithm and sine round otherwise; they draw fast enough. Draws by an operation's seed
have one state for all graphs of a step.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tnt_keras.partition.graph import Edge, Node
from tnt_keras.partition.plan import Alias, Body, Compute, Known
from tnt_keras.partition.reshard import BatchSharding
from tnt_keras.partition.value import REPLICATED, Placement, Sharded, Value
from tnt_keras.process.framework import op_library
from tnt_keras.process.rank import threads_of_operations

_REALS = frozenset({tf.float16, tf.bfloat16, tf.float32, tf.float64})
_SIGNED = frozenset({tf.int32, tf.int64})

_FULL = _SIGNED | {tf.uint32, tf.uint64}
_DRAWS = {
    "StatelessRandomUniformV2": ("tnt_uniform_rows", _REALS),
    "StatelessRandomNormalV2": ("tnt_normal_rows", _REALS),
    "StatelessTruncatedNormalV2": ("tnt_truncated_normal_rows", _REALS),
    "StatelessRandomUniformIntV2": ("tnt_uniform_int_rows", _SIGNED),
    "StatelessRandomUniformFullIntV2": ("tnt_uniform_full_int_rows", _FULL),
}
DTYPES_OF_DRAWS = {draw: dtypes for draw, (_, dtypes) in _DRAWS.items()}
"""The types of operations whose rows can be drawn alone, and the dtypes of each: all that
TensorFlow draws on CPUs."""

_PHILOX = {tf.random.Algorithm.PHILOX.value, tf.random.Algorithm.AUTO_SELECT.value}


def is_draw_of_rows(operation: tf.Operation) -> bool:
    """Return whether an operation draws some rows alone."""
    return any(operation.type.lower() == name.replace("_", "") for name, *_ in _DRAWS.values())


def is_draw(operation_type: str) -> bool:
    """Return whether rows of such a draw can be computed without the rest."""
    return operation_type in DTYPES_OF_DRAWS


def rows_of_draw(
    node: Node, operands: Sequence[tf.Tensor], whole: Value, rows: Sharded, sharding: BatchSharding
) -> list[tf.Tensor] | None:
    """Return each replica's rows of a draw, None if they must be cut from the whole draw."""
    sizes = whole.known_sizes
    if len(sizes) < whole.rank or rows.inner is None:
        return None
    counts = [axis == rows.axis for axis in range(len(sizes))]
    parts = [
        draw_rows(
            node.type,
            operands,
            whole.dtype,
            sharding.integers(sizes, counts, k),
            lead=rows.outer * math.prod(sharding.integers(sizes[: rows.axis], None, k)),
            rows=sharding.num_rows,
            first=replica,
            step=sharding.replicas.total,
        )
        for replica, k in sharding.each
    ]
    made = [part for part in parts if part is not None]
    return made if len(made) == len(parts) else None


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
    has_others = any(device.device_type != "CPU" for device in tf.config.list_logical_devices())
    if dtype not in DTYPES_OF_DRAWS.get(op_type, ()) or has_others:
        return None
    algorithm, bounds = tf.get_static_value(inputs[3]), inputs[4:]
    if algorithm is None or int(algorithm) not in _PHILOX:
        return None
    numbers = getattr(op_library(), _DRAWS[op_type][0])(
        *inputs,
        lead=_int64(lead),
        num_rows=_int64(rows),
        first=first,
        step=step,
        max_threads=_max_threads(),
        **({} if bounds else {"dtype": dtype}),
    )
    return tf.reshape(numbers, shape)


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


_STATELESS: dict[str, Callable[..., tf.Tensor]] = {
    "RandomStandardNormal": tf.raw_ops.StatelessRandomNormalV2,
    "RandomUniform": tf.raw_ops.StatelessRandomUniformV2,
    "RandomUniformInt": tf.raw_ops.StatelessRandomUniformIntV2,
    "TruncatedNormal": tf.raw_ops.StatelessTruncatedNormalV2,
}
_RESERVED = 256  # counters for each number of a draw, most of which are not used


def is_seeded(node: Node) -> bool:
    """Return whether the numbers that an operation draws are known by its seeds alone. Local."""
    return node.type in _STATELESS and any(_seeds(node))


def draws_without_seed(node: Node) -> bool:
    """Return whether an operation draws other numbers in each process. Local."""
    return node.type in _STATELESS and not any(_seeds(node))


def seeded_draw(node: Node, operands: Sequence[tf.Tensor], num_used: tf.Variable) -> tf.Tensor:
    """Make the next draw of an operation, after int64 `num_used` counters that were reserved."""
    shape, *bounds = operands
    seed, seed2 = _seeds(node)
    used = num_used.read_value()
    with tf.control_dependencies([used]):
        num_used.assign_add(_RESERVED * tf.reduce_prod(tf.cast(shape, tf.int64)))
    options = dict(zip(("minval", "maxval"), bounds, strict=False))
    return _STATELESS[node.type](
        shape=shape,
        key=tf.constant([seed], tf.uint64),
        counter=tf.stack([tf.cast(used, tf.uint64), tf.constant(seed2, tf.uint64)]),
        alg=tf.random.Algorithm.PHILOX.value,
        name=node.name,
        **(options or {"dtype": node.dtypes[0]}),
    )


def _seeds(node: Node) -> list[int]:
    return [node.attributes[name] % 2**64 for name in ("seed", "seed2")]


def own_key(replica: int) -> int:
    """Return what makes a replica's key of the common one: multiples of a number that is odd."""
    return replica * 0x9E3779B97F4A7C15 % 2**64


def own_draws(plan: Body) -> frozenset[Node]:
    """Return the draws that are read as rows in one placement, and never as a whole. Pure.

    Each replica may draw such rows for itself, instead of those of the serial run. A draw may occur
    twice, where a forward pass is computed again: of draws of one kind, dtype and shape all or none
    are returned.
    """
    kinds: dict[Any, set[Placement]] = {}
    draws = []
    for body in plan.with_inner():
        reads = _reads(body)
        for step in body.steps:
            if isinstance(step, Compute) and is_draw(step.node.type):
                kind = step.node.type, step.outputs[0].dtype, step.outputs[0].shape
                kinds.setdefault(kind, set()).update(reads.get((step.node, 0), ()))
                draws.append((kind, step.node))
    as_rows = {k for k, [*read] in kinds.items() if len(read) == 1 and isinstance(read[0], Sharded)}
    return frozenset(node for kind, node in draws if kind in as_rows)


def _reads(body: Body) -> dict[Edge, set[Placement]]:
    """Return the placements in which each value is read."""
    reads: dict[Edge, set[Placement]] = {}

    def read(edges: Sequence[Edge], placements: Sequence[Placement]) -> None:
        for edge, placement in zip(edges, placements, strict=True):
            reads.setdefault(edge, set()).add(placement)

    read(body.flat.outputs, body.outputs)
    for step in reversed(body.steps):
        inputs = step.node.inputs
        match step:
            case Known():
                continue
            case Alias():
                for i in range(len(step.outputs)):
                    for placement in reads.get((step.node, i), ()):
                        read([inputs[i]], [placement])
            case Compute(on_demand=True):
                for placement in reads.get((step.node, 0), ()):
                    of_rows = isinstance(placement, Sharded) and step.operand_placements(placement)
                    read(inputs, of_rows or [REPLICATED] * len(inputs))
            case _:
                read(inputs, step.demands)
    return reads
