"""The shapes of whole values, from TensorFlow's own shape functions.

They owe nothing to the rules: what a rule says of a local shape is held against them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tnt_keras.partition.operations import create
from tnt_keras.partition.placement import Shape
from tnt_keras.partition.traced import Node
from tnt_keras.partition.value import Value

_LARGEST_CONSTANT = 256  # elements: shapes, axes, sizes are smaller


class GlobalShapes:
    """Shape functions, applied to one operation at a time in a graph that is never run.

    What was found for an operation is kept: layers and turns of a loop repeat it.
    """

    def __init__(self) -> None:
        self._graph = tf.Graph()
        self._found: dict[Any, list[Shape]] = {}
        self._operands: dict[Any, tf.Tensor] = {}

    def infer(self, node: Node, inputs: Sequence[Value]) -> list[Shape]:
        """Return the shapes of a node's outputs for these inputs.

        Raises:
            ValueError: If TensorFlow finds that the inputs do not fit.
        """
        if any(dtype in (tf.resource, tf.variant) for dtype in [*node.dtypes, *_dtypes(inputs)]):
            return [_tuple(shape) for shape in node.shapes]
        if all(shape.is_fully_defined() for shape in node.shapes):
            return [_tuple(shape) for shape in node.shapes]
        key = (node.type, _attribute_key(node), tuple(_operand_key(v) for v in inputs))
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._shapes(node, inputs)
        return [merged(a, _tuple(b)) for a, b in zip(found, node.shapes, strict=True)]

    def _shapes(self, node: Node, inputs: Sequence[Value]) -> list[Shape]:
        with self._graph.as_default(), tf.device(None):
            operands = [self._operand(value) for value in inputs]
            attributes = {k: v for k, v in node.attributes.proto.items() if k[0] != "_"}
            made = create(node.type, operands, node.dtypes, "op", attributes)
        return [_tuple(tensor.shape) for tensor in made]

    def _operand(self, value: Value) -> tf.Tensor:
        key = _operand_key(value)
        if key not in self._operands:
            self._operands[key] = self._make_operand(value)
        return self._operands[key]

    def _make_operand(self, value: Value) -> tf.Tensor:
        if _is_small_constant(value):
            return tf.constant(value.constant, value.dtype)
        if value.elements and len(value.shape or ()) == 1:
            return tf.stack(
                [
                    tf.compat.v1.placeholder(value.dtype, [])
                    if e is None
                    else tf.constant(e, value.dtype)
                    for e in value.elements
                ]
            )
        return tf.compat.v1.placeholder(value.dtype, value.shape)


def merged(first: Shape, second: Shape) -> Shape:
    """Return what is known of a shape of which two things are known.

    Raises:
        ValueError: If they contradict each other.
    """
    if first is None or second is None:
        return second if first is None else first
    if len(first) != len(second) or any(
        a is not None and b is not None and a != b for a, b in zip(first, second, strict=True)
    ):
        raise ValueError(f"The shapes {first} and {second} contradict each other.")
    return tuple(b if a is None else a for a, b in zip(first, second, strict=True))


def in_common(first: Shape, second: Shape) -> Shape:
    """Return the shape that both of two values have, with None where they differ."""
    if first is None or second is None or len(first) != len(second):
        return None
    return tuple(a if a == b else None for a, b in zip(first, second, strict=True))


def _tuple(shape: tf.TensorShape) -> Shape:
    return None if shape.rank is None else tuple(shape.as_list())


def _dtypes(inputs: Sequence[Value]) -> list[tf.DType]:
    return [value.dtype for value in inputs]


def _is_small_constant(value: Value) -> bool:
    return (
        value.constant is not None
        and value.constant.size <= _LARGEST_CONSTANT
        and value.constant.dtype.kind in "iubf"
    )


def _operand_key(value: Value) -> Any:
    if _is_small_constant(value):
        array = np.asarray(value.constant)
        return value.dtype, array.shape, array.tobytes()
    return value.dtype, value.shape, value.elements


def _attribute_key(node: Node) -> Any:
    proto = node.attributes.proto
    return tuple((k, proto[k].SerializeToString()) for k in sorted(proto) if k[0] != "_")
