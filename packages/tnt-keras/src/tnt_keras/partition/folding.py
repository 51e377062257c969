"""Constant folding: shapes of whole values, and what follows from them when the graph is built.

An unknown size is never guessed, and nothing that is computed from one is known. So no number that
depends on the sizes of this batch is kept for the next.
"""

from __future__ import annotations

import contextlib
import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from tnt_keras.keras_hooks.private_tensorflow import executed
from tnt_keras.partition.graph import Node
from tnt_keras.partition.operations import calls_functions, is_handle, is_stateful
from tnt_keras.partition.value import (
    REPLICATED,
    Shape,
    Value,
    constant,
    in_example,
    integers,
    is_symbolic,
    multiple,
    quotient,
)

_LARGEST = 1000  # elements; larger values are computed when the step runs

_NUMBERS = {
    "Abs", "Add", "AddV2", "BroadcastArgs", "Cast", "ConcatV2", "Equal", "ExpandDims", "FloorDiv",
    "FloorMod", "GatherV2", "Greater", "GreaterEqual", "Identity", "Less", "LessEqual",
    "LogicalAnd", "LogicalNot", "LogicalOr", "Max", "Maximum", "Min", "Minimum", "Mul", "Neg",
    "NotEqual", "Pack", "Prod", "Reshape", "SelectV2", "Slice", "Split", "Squeeze", "StridedSlice",
    "Sub", "Sum", "Unpack",
}  # fmt: skip
# Operations that give elements other places, and do nothing to them: which of so many inputs hold
# these elements.
_MOVES: dict[str, Callable[[int], range]] = {
    **dict.fromkeys(("ExpandDims", "GatherV2", "Identity", "Reshape"), lambda count: range(1)),
    **dict.fromkeys(("Slice", "Squeeze", "StridedSlice", "Transpose"), lambda count: range(1)),
    "Unpack": lambda count: range(1),
    "ConcatV2": lambda count: range(count - 1),
    "DynamicStitch": lambda count: range(count // 2, count),
    "Pack": lambda count: range(count),
    "Split": lambda count: range(1, 2),
}
_ELEMENTWISE = {
    "Abs", "Add", "AddV2", "Cast", "FloorDiv", "FloorMod", "Maximum", "Minimum", "Mul", "Neg",
    "SelectV2", "Sub",
}  # fmt: skip

_OF_MULTIPLES: dict[str, Callable[..., int | None]] = {
    **dict.fromkeys(("Add", "AddV2"), operator.add),
    "Cast": operator.pos,
    "FloorDiv": quotient,
    # In the same order for any number of rows.
    "Maximum": lambda a, b: max(a, b) if is_symbolic(a) == is_symbolic(b) else None,
    "Minimum": lambda a, b: min(a, b) if is_symbolic(a) == is_symbolic(b) else None,
    "Mul": operator.mul,
    "Sub": operator.sub,
}
# In these every usual number of rows is finite.
_FLOATS = {tf.bfloat16, tf.float32, tf.float64}

Elements: TypeAlias = tuple[int | None, ...] | None


def fold(node: Node, inputs: Sequence[Value], shapes: Sequence[Shape]) -> list[Value] | None:
    """Return the outputs of a node if they are known, None if not. Local."""
    if node.type == "Const":
        is_small = (node.shapes[0].num_elements() or 0) <= _LARGEST
        array = tf.make_ndarray(node.attributes["value"]) if is_small else None
        return None if array is None else [constant(array, node.dtypes[0])]
    if any(map(is_handle, node.dtypes)):
        return None
    known = _sizes(node, inputs)
    if known is not None:
        return known
    if any(v.constant is None for v in inputs):
        return _broadcast_gradient_axes(node, inputs)
    return _computed(node, inputs) if inputs and _is_small(shapes) else None


def known_elements(node: Node, inputs: Sequence[Value]) -> list[Elements]:
    """Return the integers of each output as far as they are known, None if none is. Local."""
    none: list[Elements] = [None] * len(node.dtypes)
    if node.type == "Cast" and node.dtypes[0] in _FLOATS and inputs[0].dtype.is_integer:
        is_multiple = inputs[0].is_known and inputs[0].constant is None
        return [inputs[0].elements if is_multiple else None]
    if node.type in ("StringSplit", "StringSplitV2") and inputs[0].shape:
        size = inputs[0].shape[0]
        return [None, None, None if size is None else (size, None)]  # indices, words, shape
    if not all(dtype.is_integer for dtype in node.dtypes):
        return none
    if node.type in ("Shape", "ShapeN"):
        found = [v.shape for v in inputs]
    elif all(v.known_elements is None for v in inputs) or any(
        v.num_elements is None or v.num_elements > _LARGEST for v in inputs
    ):
        return none
    elif node.type in _MOVES:
        found = _moved(node, inputs)
    elif node.type in _ELEMENTWISE:
        found = [_elementwise(node, inputs)]
    elif node.type == "ConcatOffset" and inputs[0].constant is not None:
        found = _offsets(int(inputs[0].constant), inputs[1:])
    elif node.type == "Prod" and len(inputs[0].shape or ()) == 1 and inputs[1].num_elements:
        known = [e for e in _elements_of(inputs[0]) if e is not None]
        found = [(multiple(math.prod(known)),) if len(known) == inputs[0].num_elements else None]
    else:
        return none
    return [e if e and any(x is not None for x in e) else None for e in found]


def _elements_of(value: Value) -> tuple[int | None, ...]:
    return value.known_elements or (None,) * (value.num_elements or 0)


def _moved(node: Node, inputs: Sequence[Value]) -> list[Elements]:
    """Return the elements after an operation that moves them, by their positions in all inputs."""
    elements: list[int | None] = []
    arrays = []
    for i, value in enumerate(inputs):
        array = value.constant
        if i in _MOVES[node.type](len(inputs)):
            array = np.arange(value.num_elements or 0).reshape(value.known_sizes) + len(elements)
            elements += _elements_of(value)
        elif array is None:
            return [None] * len(node.dtypes)
        arrays.append(np.asarray(array, value.dtype.as_numpy_dtype))
    return [tuple(elements[p] for p in np.ravel(m).tolist()) for m in evaluate(node, arrays)]


def _offsets(axis: int, shapes: Sequence[Value]) -> list[Elements]:
    """Return where values of some shapes begin when they are joined along an axis."""
    found: list[Elements] = []
    offset: int | None = 0
    for sizes in map(_elements_of, shapes):
        at = axis % len(sizes)
        found.append(tuple(offset if a == at else 0 for a in range(len(sizes))))
        size = sizes[at]
        offset = None if offset is None or size is None else multiple(offset + size)
    return found


def _of_multiples(node: Node, inputs: Sequence[Value]) -> Elements:
    """Return the elements of such an operation on multiples of the number of rows."""
    compute, dtype = _OF_MULTIPLES.get(node.type), node.dtypes[0]
    if compute is None or dtype.size < 4:
        return None
    arrays = (np.asarray(_elements_of(v), object).reshape(v.known_sizes) for v in inputs)

    def computed(*numbers: int | None) -> int | None:
        found = None if None in numbers else compute(*numbers)
        found = None if found is None else multiple(found)
        is_exact = found is not None and dtype.min <= found <= dtype.max
        return found if is_exact or is_symbolic(found) else None

    return tuple(map(computed, *(np.ravel(e).tolist() for e in np.broadcast_arrays(*arrays))))


def _elementwise(node: Node, inputs: Sequence[Value]) -> Elements:
    """Return the elements of an operation that computes each of them by itself."""
    if any(is_symbolic(e) for v in inputs for e in v.elements or ()):
        return _of_multiples(node, inputs)
    arrays, unknown = [], []
    for value in inputs:
        elements, shape = _elements_of(value), value.known_sizes
        known = np.asarray([1 if e is None else e for e in elements], value.dtype.as_numpy_dtype)
        arrays.append(known.reshape(shape))
        unknown.append(np.asarray([e is None for e in elements], bool).reshape(shape))
    [computed] = evaluate(node, arrays)
    where = np.broadcast_to(functools.reduce(np.logical_or, unknown), computed.shape)
    pairs = zip(np.ravel(computed).tolist(), np.ravel(where).tolist(), strict=True)
    return tuple(None if is_unknown else int(e) for e, is_unknown in pairs)


def _broadcast_gradient_axes(node: Node, inputs: Sequence[Value]) -> list[Value] | None:
    """Return the axes along which the gradients of two operands that were broadcast are summed.

    If an operand has size 1 along an axis, or no such axis, its gradient is summed there, whatever
    the size of the other: a sum along an axis of size 1 changes nothing. Unknown sizes that are
    equal in the example are equal in every step, since the operation demands equal sizes or 1.
    """
    examples = [v.value_in_example for v in inputs]
    if node.type != "BroadcastGradientArgs" or any(e is None for e in examples):
        return None
    rank = max(np.size(e) for e in examples if e is not None)
    sizes = zip(*(_with_leading_ones(v, rank) for v in inputs), strict=True)
    axes: tuple[list[int], list[int]] = ([], [])
    for axis, ((a, a_example), (b, b_example)) in enumerate(sizes):
        if 1 in (a, b):
            if a != b:
                axes[0 if a == 1 else 1].append(axis)
        elif (a is None) != (b is None) or a_example != b_example or a_example == 1:
            return None
    return [
        constant(np.asarray(reduced, dtype.as_numpy_dtype), dtype)
        for reduced, dtype in zip(axes, node.dtypes, strict=True)
    ]


def _with_leading_ones(shape: Value, rank: int) -> list[tuple[int | None, int]]:
    """Return each size in a shape, as far as it is known and in the example, for a larger rank."""
    assert shape.value_in_example is not None
    example = [int(x) for x in np.ravel(shape.value_in_example)]
    known = shape.known_elements or (None,) * len(example)
    sizes = list(zip(known, example, strict=True))
    return [(1, 1)] * (rank - len(sizes)) + sizes


def _in_example(
    node: Node, inputs: Sequence[Value], shapes: Sequence[Shape]
) -> list[np.ndarray[Any, Any] | None]:
    """Return the outputs in the example, for integers that depend on unknown sizes."""
    none: list[np.ndarray[Any, Any] | None] = [None] * len(node.dtypes)
    if not all(dtype.is_integer or dtype.is_bool for dtype in node.dtypes):
        return none
    count = math.prod if node.type == "Size" else tuple
    with contextlib.suppress(tf.errors.OpError, ValueError, OverflowError):
        # The example need not be a batch that could occur.
        if node.type in ("Shape", "ShapeN", "Size"):
            return [
                None
                if v.example_shape is None
                else np.asarray(count(in_example(v.example_shape)), dtype.as_numpy_dtype)
                for v, dtype in zip(inputs, node.dtypes, strict=True)
            ]
        examples = [v.value_in_example for v in inputs]
        arrays = [e for e in examples if e is not None]
        is_small = node.type in _NUMBERS and _is_small(shapes)
        if arrays and len(arrays) == len(examples) and is_small and _is_pure(node):
            return [*evaluate(node, arrays)]
    return none


def _sizes(node: Node, inputs: Sequence[Value]) -> list[Value] | None:
    """Return shapes, sizes and ranks, which are those of whole values."""
    if node.type == "Rank" and inputs[0].shape is not None:
        return [constant(np.int32(inputs[0].rank), node.dtypes[0])]
    is_count = node.type in ("Shape", "ShapeN", "Size")
    if not is_count or any(v.num_elements is None for v in inputs):
        return None
    return [
        integers([v.num_elements or 0], (), dtype)
        if node.type == "Size"
        else integers(v.known_sizes, (v.rank,), dtype)
        for v, dtype in zip(inputs, node.dtypes, strict=True)
    ]


def _is_small(shapes: Sequence[Shape]) -> bool:
    """Return whether outputs, if their shapes are known, are small enough to be computed now."""
    known = (shape for shape in shapes if shape is not None)
    return all(math.prod(size or 0 for size in shape) <= _LARGEST for shape in known)


def _computed(node: Node, inputs: Sequence[Value]) -> list[Value] | None:
    numbers = [*node.dtypes, *(v.dtype for v in inputs)]
    if not _is_pure(node) or not all(d.is_numpy_compatible and d != tf.string for d in numbers):
        return None
    results = evaluate(node, [np.asarray(v.constant) for v in inputs])
    return [constant(r, dtype) for r, dtype in zip(results, node.dtypes, strict=True)]


def _is_pure(node: Node) -> bool:
    is_random = node.type.startswith("Stateless")
    return not (is_random or is_stateful(node.type) or calls_functions(node.type))


def evaluate(node: Node, arrays: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """Return the outputs of a node for these inputs, computed now."""
    dtypes = [tensor.dtype for tensor in node.operation.inputs]
    with tf.init_scope(), tf.device("CPU:0"):
        tensors = [tf.constant(a, dtype) for a, dtype in zip(arrays, dtypes, strict=True)]
        attributes = {name: node.attributes[name] for name in node.attributes.of_operation}
        results = executed(node.type, tensors, attributes, len(node.dtypes))
        # numpy makes no array of a scalar tensor of bfloat16.
        return [np.asarray(result.numpy()) for result in results]


def with_known(node: Node, inputs: Sequence[Value], shapes: Sequence[Shape]) -> list[Value]:
    """Return the outputs of a replicated node, with all that is known of them."""
    folded = fold(node, inputs, shapes)
    if folded is not None:
        return folded
    elements_of_each, examples = known_elements(node, inputs), _in_example(node, inputs, shapes)
    found = zip(node.dtypes, shapes, elements_of_each, examples, strict=True)
    return [
        integers([e for e in elements if e is not None], shape, dtype)
        if elements is not None and shape is not None and None not in (*elements, *shape)
        else Value(REPLICATED, shape, dtype, elements=elements, example=example)
        for dtype, shape, elements, example in found
    ]
