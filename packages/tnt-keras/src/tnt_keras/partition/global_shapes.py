"""The shapes of whole values, from TensorFlow's own shape functions.

They are independent of the rules, so the local shapes that follow from a rule are checked by them.

Unknown sizes are followed through an example: the batch at hand, or numbers of their own. It only
tells which of two unknown sizes a broadcasting operation must find equal. Where another batch
contradicts it, the step itself fails. No number of the example is used as a size.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tnt_keras.partition.graph import Node
from tnt_keras.partition.operations import create, is_handle
from tnt_keras.partition.value import (
    ANY_ROWS,
    ROWS_OF_EXAMPLE,
    STAND_INS,
    Shape,
    Value,
    for_rows,
    is_symbolic,
    shape_of,
    static,
)

_EXAMPLE_SIZE = 1_000_003  # larger than sizes and bounds of slices are
_BETWEEN = 7_368_787  # no sum with a size that is known is another one
_GATHERS = {"ResourceGather", "ResourceGatherNd"}
_LARGEST_CONSTANT = 256  # elements: shapes, axes, sizes are smaller


class GlobalShapes:
    """Shape functions, applied to one operation at a time in a graph that is never run.

    Results are cached, since layers repeat operations and loops are analysed in several rounds.
    """

    def __init__(self) -> None:
        self._graph = tf.Graph()
        self._found: dict[Any, list[Shape]] = {}
        self._operands: dict[_Operand, tf.Tensor] = {}
        self._sizes: dict[Any, int] = {}

    def infer(self, node: Node, inputs: Sequence[Value]) -> list[Shape]:
        """Return the shapes of a node's outputs; TensorFlow refuses inputs that do not fit."""
        traced = [shape_of(shape) for shape in node.shapes]
        if node.type in _GATHERS:
            return [_gathered(node, inputs[1].shape, traced[0])]
        if any(is_handle(dtype) for dtype in [*node.dtypes, *(v.dtype for v in inputs)]):
            return traced
        if all(shape.is_fully_defined() for shape in node.shapes):
            return traced
        found = self._inferred(node, [_operand(v) for v in inputs])
        shapes = [merged(a, b) for a, b in zip(found, traced, strict=True)]
        if any(None in (shape or ()) for shape in shapes) and any(map(_counts_rows, inputs)):
            return self._with_multiples(node, inputs, shapes)
        return shapes

    def _with_multiples(
        self, node: Node, inputs: Sequence[Value], shapes: Sequence[Shape]
    ) -> list[Shape]:
        """Return shapes with those unknown sizes that are multiples of the number of rows.

        A size that is one for two prime numbers of rows, and depends on no other unknown number, is
        one for any: shape functions add, multiply and divide.
        """

        def with_multiples(shape: Shape, first: Shape, second: Shape) -> Shape:
            if shape is None or first is None or second is None:
                return shape
            sizes = zip(shape, first, second, strict=True)
            return tuple(_multiple_of_rows(a, b) if size is None else size for size, a, b in sizes)

        try:
            found = [self._inferred(node, [_operand(v, n) for v in inputs]) for n in STAND_INS]
        except ValueError:  # a shape function that does not take these numbers
            return list(shapes)
        return [with_multiples(*each) for each in zip(shapes, *found, strict=True)]

    def in_example(
        self, node: Node, inputs: Sequence[Value], shapes: Sequence[Shape]
    ) -> list[tuple[int, ...] | None]:
        """Return the shapes of outputs in the example, None for those that are fully known."""
        if all(shape is None or None not in shape for shape in shapes):
            return [None] * len(shapes)
        found = enumerate(zip(shapes, self._shapes_in_example(node, inputs), strict=True))
        return [self._completed(node, i, shape, example) for i, (shape, example) in found]

    def _shapes_in_example(self, node: Node, inputs: Sequence[Value]) -> list[Shape]:
        if node.type in _GATHERS:
            return [_gathered(node, inputs[1].shape_in_example, shape_of(node.shapes[0]))]
        try:
            return self._inferred(node, [_operand_in_example(v) for v in inputs])
        except ValueError:  # a shape function that does not take the numbers of the example
            return [None] * len(node.dtypes)

    def new_size(self, place: Any) -> int:
        """Return the size in the example for a place where it is unknown, always the same one."""
        return self._sizes.setdefault(place, _EXAMPLE_SIZE + _BETWEEN * len(self._sizes))

    def _completed(
        self, node: Node, output: int, shape: Shape, example: Shape
    ) -> tuple[int, ...] | None:
        if shape is None or None not in shape:
            return None
        if example is None or len(example) != len(shape):
            example = (None,) * len(shape)
        sizes = [b if a is None else a for a, b in zip(shape, example, strict=True)]
        places = ((node, output, axis) for axis in range(len(sizes)))
        each = zip(sizes, places, strict=True)
        return tuple(self.new_size(place) if size is None else size for size, place in each)

    def _inferred(self, node: Node, operands: Sequence[_Operand]) -> list[Shape]:
        attributes = node.attributes.of_operation
        values = tuple((name, v.SerializeToString()) for name, v in sorted(attributes.items()))
        key = (node.type, values, tuple(operands))
        if key not in self._found:
            with self._graph.as_default(), tf.device(None):
                self._operands |= {o: o.make() for o in operands if o not in self._operands}
                tensors = [self._operands[o] for o in operands]
                made = create(node.type, tensors, node.dtypes, "op", attributes)
            self._found[key] = [shape_of(tensor.shape) for tensor in made.outputs]
        return self._found[key]


@dataclasses.dataclass(frozen=True, slots=True)
class _Operand:
    """What a shape function gets of an input: a small constant, some elements, or the shape."""

    dtype: tf.DType
    shape: Shape
    array: bytes | None = None
    elements: tuple[int | None, ...] | None = None

    def make(self) -> tf.Tensor:
        if self.array is not None:
            sizes = [size for size in self.shape or () if size is not None]  # all are known
            array = np.frombuffer(self.array, self.dtype.as_numpy_dtype).reshape(sizes)
            return tf.constant(array, self.dtype)
        if self.elements:
            make, dtype = tf.compat.v1.placeholder, self.dtype
            return tf.stack(
                [make(dtype, []) if e is None else tf.constant(e, dtype) for e in self.elements]
            )
        return tf.compat.v1.placeholder(self.dtype, self.shape)


def _operand(value: Value, num_rows: int | None = None) -> _Operand:
    """Return what is known of a value for any number of rows, or for one."""
    shape, elements = _for_rows(value.shape, num_rows), _for_rows(value.elements, num_rows)
    array = value.constant
    if array is None and elements is not None and value.dtype.is_integer:
        elements = tuple(None if e is None or e > value.dtype.max else e for e in elements)
        if shape == () and elements[0] is not None:
            array = np.asarray(elements[0], value.dtype.as_numpy_dtype)
    is_vector = shape is not None and len(shape) == 1 and value.dtype.is_integer
    return _array_or(array, _Operand(value.dtype, shape, None, elements if is_vector else None))


def _operand_in_example(value: Value) -> _Operand:
    shape = _for_rows(value.shape_in_example, ROWS_OF_EXAMPLE)
    return _array_or(value.value_in_example, _Operand(value.dtype, shape))


def _array_or(array: np.ndarray[Any, Any] | None, operand: _Operand) -> _Operand:
    """Return the operand with these numbers, if they are few."""
    if array is None or array.size > _LARGEST_CONSTANT or array.dtype.kind not in "iubf":
        return operand
    return _Operand(operand.dtype, tuple(array.shape), array.tobytes())


def _for_rows(sizes: Shape, num_rows: int | None) -> Shape:
    if sizes is None or num_rows is None:
        return static(sizes)
    return tuple(None if s is None else for_rows(s, num_rows) for s in sizes)


def _counts_rows(value: Value) -> bool:
    return any(map(is_symbolic, (*(value.shape or ()), *(value.elements or ()))))


def _multiple_of_rows(first: int | None, second: int | None) -> int | None:
    """Return `m * N` if it is that for both stand-ins of `N`, else None."""
    a, b = STAND_INS
    if not first or not second or first % a or second % b or first // a != second // b:
        return None
    return first // a * ANY_ROWS


def merged(first: Shape, second: Shape) -> Shape:
    """Return two partly known shapes combined; they must not contradict each other."""
    if first is None or second is None:
        return second if first is None else first
    if len(first) != len(second) or any(
        a is not None and b is not None and a != b for a, b in zip(first, second, strict=True)
    ):
        raise ValueError(f"The shapes {first} and {second} contradict each other.")
    return tuple(b if a is None else a for a, b in zip(first, second, strict=True))


def in_common(first: Shape, second: Shape) -> Shape:
    """Return what two shapes have in common, with None where they differ."""
    if first is None or second is None or len(first) != len(second):
        return None
    return tuple(a if a == b else None for a, b in zip(first, second, strict=True))


def _gathered(node: Node, indices: Shape, traced: Shape) -> Shape:
    """Return the shape of gathered rows of a variable: that of the indices, then that of a row."""
    if indices is None or traced is None:
        return traced
    if node.type == "ResourceGatherNd":
        indices = indices[:-1]
    elif node.attributes["batch_dims"]:
        return traced
    return (*indices, *traced[len(indices) :])
