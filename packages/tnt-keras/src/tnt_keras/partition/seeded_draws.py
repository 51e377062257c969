"""Draws by an operation's seed: one state for all graphs of a step.

TensorFlow keeps their state in the graph, and a batch of another size has a graph of its own here.
So these draws are made by TensorFlow's stateless operations, of the same generator (Philox), with
the key and the counter that the state of the operation would hold; how far it has come stands in a
variable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

from tnt_keras.partition.flat_graph import Node

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
