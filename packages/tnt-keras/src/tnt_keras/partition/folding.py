"""Constant folding: shapes of whole values, and what follows from them when the graph is built.

An unknown size is never guessed, and nothing that is computed from one is known. So no number that
depends on the sizes of this batch is kept for the next.
"""

from __future__ import annotations

import functools
import inspect
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from tnt_keras.partition.graph import Node
from tnt_keras.partition.operations import calls_functions, definition, is_handle, is_stateful
from tnt_keras.partition.value import (
    REPLICATED,
    Shape,
    Value,
    are_alike,
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
    **dict.fromkeys(
        (
            *("ExpandDims", "GatherV2", "Identity", "Reshape", "Slice", "Squeeze", "StridedSlice"),
            *("Transpose", "Unpack"),
        ),
        lambda count: range(1),
    ),
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
    "Maximum": lambda a, b: max(a, b) if are_alike(a, b) else None,
    "Minimum": lambda a, b: min(a, b) if are_alike(a, b) else None,
    "Mul": operator.mul,
    "Sub": operator.sub,
}
# In these every usual number of rows is finite.
_FLOATS = {tf.bfloat16, tf.float32, tf.float64}

Elements: TypeAlias = tuple[int | None, ...] | None


def fold(node: Node, inputs: Sequence[Value], shapes: Sequence[Shape]) -> list[Value] | None:
    """Return the outputs of a node if they are known, None if not. Local."""
    if node.type == "Const":
        return _const(node)
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
    elif all(v.known_elements is None for v in inputs) or not all(map(_is_small_array, inputs)):
        return none
    elif node.type in _MOVES:
        found = _moved(node, inputs)
    elif node.type in _ELEMENTWISE:
        found = [_elementwise(node, inputs)]
    elif node.type == "ConcatOffset" and inputs[0].constant is not None:
        found = _offsets(int(inputs[0].constant), inputs[1:])
    elif node.type == "Prod" and len(inputs[0].shape or ()) == 1 and inputs[1].num_elements:
        found = [_product(inputs[0])]
    else:
        return none
    return [e if e and any(x is not None for x in e) else None for e in found]


def _is_small_array(value: Value) -> bool:
    return value.num_elements is not None and value.num_elements <= _LARGEST


def _elements_of(value: Value) -> tuple[int | None, ...]:
    return value.known_elements or (None,) * (value.num_elements or 0)


def _moved(node: Node, inputs: Sequence[Value]) -> list[Elements]:
    """Return the elements after an operation that moves them, by their positions in all inputs."""
    elements: list[int | None] = []
    arrays = []
    for i, (value, tensor) in enumerate(zip(inputs, node.operation.inputs, strict=True)):
        array = value.constant
        if i in _MOVES[node.type](len(inputs)):
            array = np.arange(value.num_elements or 0).reshape(value.known_sizes) + len(elements)
            elements += _elements_of(value)
        elif array is None:
            return [None] * len(node.dtypes)
        arrays.append(np.asarray(array, tensor.dtype.as_numpy_dtype))
    return [tuple(elements[p] for p in np.ravel(m).tolist()) for m in evaluate(node, arrays)]


def _offsets(axis: int, shapes: Sequence[Value]) -> list[Elements]:
    """Return where values of some shapes begin when they are joined along an axis."""
    found: list[Elements] = []
    offset: int | None = 0
    for sizes in map(_elements_of, shapes):
        at = axis % len(sizes)
        found.append(tuple(offset if a == at else 0 for a in range(len(sizes))))
        size = sizes[at]
        known = None if offset is None or size is None else offset + size
        offset = None if known is None else multiple(known)
    return found


def _product(vector: Value) -> Elements:
    known = [e for e in _elements_of(vector) if e is not None]
    return (multiple(math.prod(known)),) if len(known) == vector.num_elements else None


def _of_multiples(node: Node, inputs: Sequence[Value]) -> Elements:
    """Return the elements of such an operation on multiples of the number of rows."""
    compute, dtype = _OF_MULTIPLES.get(node.type), node.dtypes[0]
    if compute is None or dtype.size < 4:
        return None
    operands = np.broadcast_arrays(
        *(np.asarray(_elements_of(v), object).reshape(v.known_sizes) for v in inputs)
    )

    def computed(*numbers: int | None) -> int | None:
        found = None if None in numbers else compute(*numbers)
        found = None if found is None else multiple(found)
        is_exact = found is not None and dtype.min <= found <= dtype.max
        return found if is_exact or is_symbolic(found) else None

    return tuple(map(computed, *(np.ravel(each).tolist() for each in operands)))


def _elementwise(node: Node, inputs: Sequence[Value]) -> Elements:
    """Return the elements of an operation that computes each of them by itself."""
    if any(is_symbolic(e) for v in inputs for e in v.elements or ()):
        return _of_multiples(node, inputs)
    arrays, unknown = [], []
    for value, tensor in zip(inputs, node.operation.inputs, strict=True):
        elements, shape = _elements_of(value), value.known_sizes
        known = np.asarray([1 if e is None else e for e in elements], tensor.dtype.as_numpy_dtype)
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
    (first, second) = [_with_leading_ones(v, rank) for v in inputs]
    axes: tuple[list[int], list[int]] = ([], [])
    for axis, ((a, a_example), (b, b_example)) in enumerate(zip(first, second, strict=True)):
        if a == 1 or b == 1:
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
    examples = [v.value_in_example for v in inputs]
    try:
        if node.type in ("Shape", "ShapeN", "Size"):
            return [
                None if v.example_shape is None else _counted(node, v.example_shape, dtype)
                for v, dtype in zip(inputs, node.dtypes, strict=True)
            ]
        if (
            not examples
            or any(e is None for e in examples)
            or node.type not in _NUMBERS
            or not _is_small(shapes)
            or not _is_pure(node)
        ):
            return none
        return [*evaluate(node, [e for e in examples if e is not None])]
    # The example need not be a batch that could occur.
    except (tf.errors.OpError, ValueError, OverflowError):
        return none


def _counted(node: Node, shape: tuple[int, ...], dtype: tf.DType) -> np.ndarray[Any, Any]:
    shape = in_example(shape)
    return np.asarray(math.prod(shape) if node.type == "Size" else shape, dtype.as_numpy_dtype)


def _const(node: Node) -> list[Value] | None:
    size = node.shapes[0].num_elements()
    if size is None or size > _LARGEST:
        return None
    return [constant(tf.make_ndarray(node.attributes["value"]), node.dtypes[0])]


def _sizes(node: Node, inputs: Sequence[Value]) -> list[Value] | None:
    """Return shapes, sizes and ranks, which are those of whole values."""
    if node.type not in ("Shape", "ShapeN", "Size", "Rank"):
        return None
    if node.type == "Rank":
        shape = inputs[0].shape
        return None if shape is None else [constant(np.int32(len(shape)), node.dtypes[0])]
    if any(v.num_elements is None for v in inputs):
        return None
    return [
        integers([v.num_elements or 0], (), dtype)
        if node.type == "Size"
        else integers(v.known_sizes, (v.rank,), dtype)
        for v, dtype in zip(inputs, node.dtypes, strict=True)
    ]


def _is_small(shapes: Sequence[Shape]) -> bool:
    """Return whether outputs, if their shapes are known, are small enough to be computed now."""
    sizes = [[size or 0 for size in shape] for shape in shapes if shape is not None]
    return all(math.prod(size) <= _LARGEST for size in sizes)


def _computed(node: Node, inputs: Sequence[Value]) -> list[Value] | None:
    numbers = [*node.dtypes, *(v.dtype for v in inputs)]
    if not _is_pure(node) or not all(d.is_numpy_compatible and d != tf.string for d in numbers):
        return None
    arrays = [np.asarray(v.constant) for v in inputs]
    results = evaluate(node, arrays)
    return [constant(r, dtype) for r, dtype in zip(results, node.dtypes, strict=True)]


def _is_pure(node: Node) -> bool:
    is_random = node.type.startswith("Stateless")
    return not (is_random or is_stateful(node.type) or calls_functions(node.type))


def evaluate(node: Node, arrays: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """Return the outputs of a node for these inputs, computed now."""
    described = definition(node.type)
    given = iter(
        tf.constant(a, t.dtype) for a, t in zip(arrays, node.operation.inputs, strict=True)
    )
    arguments: dict[str, Any] = {}
    deduced = set()
    names = _argument_names(node.type)
    with tf.init_scope(), tf.device("CPU:0"):
        for argument in described.input_arg:
            deduced |= {argument.type_attr, argument.type_list_attr, argument.number_attr}
            if argument.number_attr:
                count = node.attributes[argument.number_attr]
            elif argument.type_list_attr:
                count = len(node.attributes[argument.type_list_attr])
            else:
                arguments[names[argument.name]] = next(given)
                continue
            arguments[names[argument.name]] = [next(given) for _ in range(count)]
        for attr in described.attr:
            if attr.name not in deduced:
                value = node.attributes[attr.name]
                arguments[names[attr.name]] = value.decode() if isinstance(value, bytes) else value
        results = getattr(tf.raw_ops, node.type)(**arguments)
    if isinstance(results, tf.Tensor):
        results = [results]
    # numpy makes no array of a scalar tensor of bfloat16.
    return [np.asarray(r.numpy()) for r in results]


@functools.cache
def _argument_names(operation_type: str) -> dict[str, str]:
    """Return the names of inputs and attributes in `tf.raw_ops`, which renames some of them."""
    described = definition(operation_type)
    accepted = list(inspect.signature(getattr(tf.raw_ops, operation_type)).parameters)
    defined = [a.name for a in (*described.input_arg, *described.attr)]
    deduced = {
        name for a in described.input_arg for name in (a.type_attr, a.type_list_attr, a.number_attr)
    }
    others = iter(name for name in accepted if name not in defined and name != "name")
    return {
        name: name if name in accepted else next(others) for name in defined if name not in deduced
    }


def with_known(node: Node, inputs: Sequence[Value], shapes: Sequence[Shape]) -> list[Value]:
    """Return the outputs of a replicated node, with all that is known of them."""
    folded = fold(node, inputs, shapes)
    if folded is not None:
        return folded
    found = zip(
        node.dtypes,
        shapes,
        known_elements(node, inputs),
        _in_example(node, inputs, shapes),
        strict=True,
    )
    return [
        integers([e for e in elements if e is not None], shape, dtype)
        if elements is not None and shape is not None and None not in (*elements, *shape)
        else Value(REPLICATED, shape, dtype, elements=elements, example=example)
        for dtype, shape, elements, example in found
    ]
