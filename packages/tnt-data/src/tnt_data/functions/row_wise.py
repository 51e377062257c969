"""Prove that a function on batches treats each row alone, whatever the other rows are.

Such a function gives the same bits for a row in a micro-batch as in the whole batch, so it may run
after the split. The proof goes through the operations of the traced graph. Every tensor must be one
of two kinds: *rows*, with one entry for each sample along its first axis, or *shared*, computed
without looking at any row. An operation is allowed if the table below says when it makes rows of
rows, and these conditions hold. Only operations are listed whose results are exact, or computed
for each row by itself: `exp`, for example, may be computed differently at the end of an array.
Anything else, random numbers and calls of functions included, is no proof.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tnt_data.functions.contents import is_stateless
from tnt_data.tensorflow_private import TracedFunction

Rule = Callable[[Any, list[bool]], bool]
"""Whether an operation makes rows, given which of its inputs are rows; some are."""


def is_row_wise(traced: TracedFunction) -> bool:
    """Return whether a function treats each row of a batch alone. Local."""
    specs = tf.nest.flatten(traced.takes)
    if not all(type(spec) is tf.TensorSpec and spec.shape.rank is not None for spec in specs):
        return False
    function = traced.function
    rows = {tensor.name: False for tensor in function.inputs}
    rows |= {t.name: spec.shape.rank > 0 for t, spec in zip(function.inputs, specs, strict=False)}
    for operation in function.graph.get_operations():
        if operation.type in ("Placeholder", "NoOp"):
            continue
        of_inputs = [rows[tensor.name] for tensor in operation.inputs]
        if not _is_allowed(operation, of_inputs):
            return False
        rows |= {tensor.name: any(of_inputs) for tensor in operation.outputs}
    results = tf.nest.flatten(traced.gives)
    return all(type(spec) is tf.TensorSpec for spec in results) and all(
        rows[tensor.name] or spec.shape.rank == 0
        for tensor, spec in zip(function.outputs, results, strict=True)
    )


def _is_allowed(operation: Any, rows: list[bool]) -> bool:
    if not any(rows):
        return is_stateless(operation.type) or operation.type == "ReadVariableOp"
    ranks = [t.shape.rank for t, is_rows in zip(operation.inputs, rows, strict=True) if is_rows]
    rule = _RULES.get(operation.type)
    return rule is not None and None not in ranks and rule(operation, rows)


def _same_shape(operation: Any, rows: list[bool]) -> bool:
    return all(rows)


def _broadcast(operation: Any, rows: list[bool]) -> bool:
    """Check that rows have all axes of the result, and that nothing shared has the first one."""
    rank = operation.outputs[0].shape.rank
    if rank is None:
        return False
    return all(
        tensor.shape.rank == rank if is_rows else _spares_first_axis(tensor, rank)
        for tensor, is_rows in zip(operation.inputs, rows, strict=True)
    )


def _spares_first_axis(tensor: Any, rank: int) -> bool:
    shape = tensor.shape
    return shape.rank is not None and bool(shape.rank < rank or shape[0] == 1)


def _joined(operation: Any, rows: list[bool]) -> bool:
    """Check that tensors are concatenated along another axis than the first."""
    if operation.type == "Pack":
        tensors, axis, extra = list(operation.inputs), operation.get_attr("axis"), 1
    else:
        tensors, axis, extra = list(operation.inputs)[:-1], _constant(operation.inputs[-1]), 0
    if axis is None or not all(rows[: len(tensors)]):
        return False
    return bool(int(axis) % (tensors[0].shape.rank + extra) != 0)


def _one_hot(operation: Any, rows: list[bool]) -> bool:
    return not any(rows[1:]) and bool(operation.get_attr("axis") != 0)


def _expanded(operation: Any, rows: list[bool]) -> bool:
    axis = _constant(operation.inputs[1])
    return axis is not None and int(axis) % (operation.inputs[0].shape.rank + 1) != 0


def _squeezed(operation: Any, rows: list[bool]) -> bool:
    axes = operation.get_attr("squeeze_dims")
    rank = operation.inputs[0].shape.rank
    return bool(axes) and all(axis % rank != 0 for axis in axes)


def _reduced(operation: Any, rows: list[bool]) -> bool:
    axes, rank = _constant(operation.inputs[1]), operation.inputs[0].shape.rank
    return axes is not None and all(axis % rank != 0 for axis in np.ravel(axes))


def _reshaped(operation: Any, rows: list[bool]) -> bool:
    """Check that the first axis is left open, and the others hold as many numbers as before."""
    shape, before = _constant(operation.inputs[1]), operation.inputs[0].shape[1:]
    if shape is None or len(shape) == 0 or shape[0] != -1 or not before.is_fully_defined():
        return False
    return bool(np.prod(shape[1:]) == before.num_elements())


def _transposed(operation: Any, rows: list[bool]) -> bool:
    order = _constant(operation.inputs[1])
    return order is not None and int(order[0]) == 0


def _gathered(operation: Any, rows: list[bool]) -> bool:
    """Check that rows are indices into a table that all rows share."""
    axis = _constant(operation.inputs[2])
    return rows == [False, True, False] and axis == 0 and not operation.get_attr("batch_dims")


def _first_is_rows(operation: Any, rows: list[bool]) -> bool:
    return rows[0] and not any(rows[1:])


def _second_is_rows(operation: Any, rows: list[bool]) -> bool:
    return rows[1] and not rows[0] and not any(rows[2:])


def _sliced(operation: Any, rows: list[bool]) -> bool:
    """Check that the first axis is taken whole: by `x[:, ...]`, or by `x[..., i]`."""
    begin, strides = _constant(operation.inputs[1]), _constant(operation.inputs[3])
    if begin is None or strides is None or any(rows[1:]):
        return False
    masks = {name: operation.get_attr(f"{name}_mask") for name in _MASKS}
    if (masks["shrink_axis"] | masks["new_axis"]) & 1:
        return False
    if masks["ellipsis"] & 1:
        num_others = len(begin) - 1 - bin(masks["new_axis"]).count("1")
        return bool(operation.inputs[0].shape.rank > num_others)
    return bool(masks["begin"] & masks["end"] & 1) and int(strides[0]) == 1


def _constant(tensor: Any) -> Any:
    return tf.get_static_value(tensor)


_MASKS = ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
_RULES: dict[str, Rule] = {
    **dict.fromkeys(
        (
            *("Identity", "IdentityN", "StopGradient", "PreventGradient", "Snapshot"),
            *("Cast", "Neg", "Abs", "Sign", "Square", "Floor", "Ceil", "Round", "Rint", "Relu"),
            *("LogicalNot", "Invert", "IsNan", "IsInf", "IsFinite", "ZerosLike", "OnesLike"),
            *("StringLower", "StringUpper", "StringStrip", "StringLength", "StringToNumber"),
            *("AsString", "StringToHashBucketFast"),
        ),
        _same_shape,
    ),
    **dict.fromkeys(
        (
            *("Add", "AddV2", "Sub", "Mul", "Div", "RealDiv", "FloorDiv", "FloorMod", "DivNoNan"),
            *("Maximum", "Minimum", "SquaredDifference", "ClipByValue", "SelectV2", "AddN"),
            *("Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual"),
            *("LogicalAnd", "LogicalOr", "BitwiseAnd", "BitwiseOr", "BitwiseXor"),
        ),
        _broadcast,
    ),
    **dict.fromkeys(("Max", "Min", "All", "Any", "ArgMax", "ArgMin"), _reduced),
    **dict.fromkeys(("Pack", "ConcatV2"), _joined),
    **dict.fromkeys(("ResizeBilinear", "ResizeNearestNeighbor"), _first_is_rows),
    "LookupTableFindV2": _second_is_rows,
    "OneHot": _one_hot,
    "ExpandDims": _expanded,
    "Squeeze": _squeezed,
    "Reshape": _reshaped,
    "Transpose": _transposed,
    "GatherV2": _gathered,
    "StridedSlice": _sliced,
}
