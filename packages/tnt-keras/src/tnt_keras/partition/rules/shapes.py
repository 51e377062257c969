"""Operations that give the same elements another shape."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from tnt_keras.partition.placement import PARTIAL, REPLICATED, Placement, Rows, Shape
from tnt_keras.partition.row_numbers import static
from tnt_keras.partition.rules.registry import Decision, Operation, is_total, rule
from tnt_keras.partition.value import Value


def as_they_are(operation: Operation, *outputs: Placement, **changes: Any) -> Decision:
    """Return a decision that takes all inputs as they are."""
    return Decision(tuple(v.placement for v in operation.inputs), outputs, **changes)


def sum_of_parts(operation: Operation) -> Decision | None:
    """Return the decision that takes totals to totals, None if an input has another placement."""
    if all(is_total(v) or v.placement == REPLICATED for v in operation.inputs):
        return as_they_are(operation, *[PARTIAL] * len(operation.outputs))
    return None


def on_axis(rows: Rows, axis: int) -> Rows:
    """Return the placement of the same rows along another axis."""
    return Rows(axis, rows.outer, rows.inner)


def known_axis(operand: Value, rank: int) -> int | None:
    """Return the axis that an operand says, counted from 0; None if it is not known."""
    if operand.constant is None or operand.constant.size != 1:
        return None
    return int(operand.constant.ravel()[0]) % rank


def known_sizes(operand: Value, shape: Shape) -> Shape:
    """Return what is known of a shape, from the operand that says it and from TensorFlow."""
    elements = operand.known_elements
    if elements is None:
        return shape
    said = tuple(None if e is None or e < 0 else e for e in elements)
    if shape is None:
        return said
    return tuple(e if size is None else size for size, e in zip(shape, said, strict=False))


def flags(length: int, *true: int) -> tuple[bool, ...]:
    """Return so many booleans, of which those at some positions are true."""
    return tuple(i in true for i in range(length))


@rule("Reshape", replicated=[1], linear=[0])
def _reshape(operation: Operation) -> Decision | None:
    value = operation.inputs[0]
    rows = value.placement
    if not isinstance(rows, Rows):
        return sum_of_parts(operation)
    sizes = _reshaped_sizes(operation)
    if value.shape is None or sizes is None or 0 in value.shape or 0 in sizes:
        return None
    found = _from_the_left(rows, value.shape, sizes, operation.num_rows) or _from_the_right(
        rows, value.shape, sizes, operation.num_rows
    )
    if found is None:
        return None
    return as_they_are(operation, found, counts_rows={1: flags(len(sizes), found.axis)})


def _reshaped_sizes(operation: Operation) -> Shape:
    """Return what is known of the sizes that a reshape gives.

    The size that it has to find (-1) is known if the other unknown sizes are those of the value.
    Lanes are told the size: their reshape fails if it is not what it would have found.
    """
    (value, operand), [output] = operation.inputs, operation.outputs
    sizes, said = known_sizes(operand, output.shape), operand.known_elements
    if sizes is None or said is None or value.shape is None or output.example_shape is None:
        return sizes
    found = [i for i, size in enumerate(sizes) if size is None and said[i] == -1]
    given = [i for i, size in enumerate(sizes) if size is None and said[i] != -1]
    before = [i for i, size in enumerate(value.shape) if size is None]
    example = value.example_shape or ()
    if len(found) != 1 or Counter(example[i] for i in before) != Counter(
        output.example_shape[i] for i in given
    ):
        return sizes
    num_elements = math.prod(size for size in value.shape if size is not None)
    num_others = math.prod(size for size in sizes if size is not None)
    if num_others == 0 or num_elements % num_others:
        return sizes
    return tuple(num_elements // num_others if i in found else s for i, s in enumerate(sizes))


def _from_the_left(
    rows: Rows, shape: Sequence[int | None], sizes: Sequence[int | None], num_rows: int
) -> Rows | None:
    """Return where the rows are after a reshape, seen from the sizes before them.

    Row-major, a value is `before` times the rows, each of `row` elements. An axis in front of which
    `run` elements stand holds all rows if `run` divides `before`, and its size is a multiple of
    `before / run * N`. There is only one such axis, since `run` is larger than `before` behind it.
    """
    before = _product(shape[: rows.axis])
    if before is None:
        return None
    before *= rows.outer
    run = 1
    for axis, size in enumerate(sizes):
        outer = before // run
        if size is None:
            row = (rows.inner or 1) * math.prod(s for s in shape[rows.axis + 1 :] if s is not None)
            rest = _product(sizes[axis + 1 :])
            is_whole = before % run == 0 and rest is not None and row % rest == 0
            return Rows(axis, outer, None) if is_whole else None
        if before % run == 0 and size % (outer * num_rows) == 0:
            return Rows(axis, outer, size // (outer * num_rows))
        run *= size
    return None


def _from_the_right(
    rows: Rows, shape: Sequence[int | None], sizes: Sequence[int | None], num_rows: int
) -> Rows | None:
    """Return the same, seen from the sizes behind the rows: those before them may be unknown."""
    row = _product(shape[rows.axis + 1 :])
    if row is None or rows.inner is None:
        return None
    row *= rows.inner
    run = 1
    for axis in reversed(range(len(sizes))):
        size = sizes[axis]
        if size is None:
            return None
        inner = row // run
        if row % run == 0 and size % (num_rows * inner) == 0:
            return Rows(axis, size // (num_rows * inner), inner)
        run *= size
    return None


def _product(sizes: Sequence[int | None]) -> int | None:
    """Return the product of sizes, None if one is not known."""
    known = [s for s in sizes if s is not None]
    return math.prod(known) if len(known) == len(sizes) else None


@rule("ExpandDims", replicated=[1], linear=[0])
def _expand_dims(operation: Operation) -> Decision | None:
    value, operand = operation.inputs
    rows = value.placement
    if not isinstance(rows, Rows):
        return sum_of_parts(operation)
    axis = None if value.shape is None else known_axis(operand, value.rank + 1)
    if axis is None:
        return None
    return as_they_are(operation, behind_new_axis(rows, axis))


def behind_new_axis(rows: Rows, axis: int) -> Rows:
    """Return the placement of rows after an axis was put in at some position of the result."""
    return on_axis(rows, rows.axis + (axis <= rows.axis))


@rule("Squeeze", linear=[0])
def _squeeze(operation: Operation) -> Decision | None:
    [value] = operation.inputs
    rows = value.placement
    if not isinstance(rows, Rows):
        return sum_of_parts(operation)
    if value.shape is None:
        return None
    axes = {axis % value.rank for axis in operation.attributes["squeeze_dims"]}
    if not axes:
        if None in value.shape:
            return None
        axes = {axis for axis, size in enumerate(value.shape) if size == 1}
    # A lane with a single row has an axis of size 1 that the whole value does not have: the axes
    # must be said, and "none" cannot be.
    if not axes or rows.axis in axes:
        return None
    placed = on_axis(rows, rows.axis - sum(a < rows.axis for a in axes))
    return as_they_are(operation, placed, attributes={"squeeze_dims": sorted(axes)})


@rule("Transpose ConjugateTranspose", replicated=[1], linear=[0])
def _transpose(operation: Operation) -> Decision | None:
    value, operand = operation.inputs
    rows = value.placement
    if not isinstance(rows, Rows):
        return sum_of_parts(operation)
    if value.shape is None or operand.known_elements is None:
        return None
    order = [None if p is None else p % value.rank for p in static(operand.known_elements) or ()]
    if rows.axis not in order:
        return None
    return as_they_are(operation, on_axis(rows, order.index(rows.axis)))


@rule("BroadcastTo", replicated=[1], spreads=True)
def _broadcast_to(operation: Operation) -> Decision | None:
    value, operand = operation.inputs
    rows = value.placement
    sizes = known_sizes(operand, operation.outputs[0].shape)
    if not isinstance(rows, Rows) or value.shape is None or sizes is None:
        return None
    axis = rows.axis + len(sizes) - value.rank
    size = value.shape[rows.axis]
    if size is not None and sizes[axis] not in (size, None):
        return None  # A batch of one row, repeated.
    placed = on_axis(rows, axis)
    return as_they_are(operation, placed, counts_rows={1: flags(len(sizes), axis)})


@rule("Tile", replicated=[1])
def _tile(operation: Operation) -> Decision | None:
    value, operand = operation.inputs
    rows = value.placement
    if not isinstance(rows, Rows) or value.shape is None:
        return None
    times = _times(value.shape[rows.axis], operand, operation.outputs[0].shape, rows.axis)
    if not times:
        return None
    return as_they_are(operation, Rows(rows.axis, rows.outer * times, rows.inner))


def _times(size: int | None, operand: Value, shape: Shape, axis: int) -> int | None:
    """Return how often an axis is repeated, None if that is not known."""
    if operand.known_elements is not None and operand.known_elements[axis] is not None:
        return operand.known_elements[axis]
    tiled = None if shape is None else shape[axis]
    return None if tiled is None or not size else tiled // size


@rule("Fill", replicated=[0, 1], spreads=True)
def _fill(operation: Operation) -> Decision | None:
    """Never asked for: what is filled is the same everywhere. It may be made as rows."""
    return None
