"""Random draws: each lane computes its rows of those of the serial run.

Draws by an operation's seed have one state for all graphs of a step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import tensorflow as tf

from tnt_keras.partition.draw_rows import DTYPES_OF_DRAWS, draw_rows
from tnt_keras.partition.flat_graph import Node
from tnt_keras.partition.placement import Rows
from tnt_keras.partition.reshard import Layout
from tnt_keras.partition.value import Value


def is_draw(operation_type: str) -> bool:
    """Return whether rows of such a draw can be computed without the rest."""
    return operation_type in DTYPES_OF_DRAWS


def rows_of_draw(
    node: Node, operands: Sequence[tf.Tensor], whole: Value, rows: Rows, layout: Layout
) -> list[tf.Tensor] | None:
    """Return each lane's rows of a draw, None if they must be cut from the whole draw."""
    sizes = [size for size in whole.shape or () if size is not None]
    if len(sizes) < whole.rank or rows.inner is None:
        return None
    counts = [axis == rows.axis for axis in range(len(sizes))]
    parts = [
        draw_rows(
            node.type,
            operands,
            whole.dtype,
            layout.integers(sizes, counts, k),
            lead=rows.outer * math.prod(layout.integers(sizes[: rows.axis], None, k)),
            rows=layout.num_rows,
            first=lane,
            step=layout.lanes.total,
        )
        for lane, k in zip(layout.lanes.numbers, layout.lane_rows, strict=True)
    ]
    return (
        None
        if any(part is None for part in parts)
        else [part for part in parts if part is not None]
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
