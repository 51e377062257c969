"""Operations that cut, join and pad along axes.

Along the rows' axis whole blocks of the batch can be taken and joined: each lane has its rows of
each block. What picks rows by their position has no rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tnt_keras.partition.placement import PARTIAL, REPLICATED, Placement, Rows, Shape
from tnt_keras.partition.rules.axis_labels import along_one_label
from tnt_keras.partition.rules.registry import Decision, Operation, is_total, rule
from tnt_keras.partition.rules.shapes import (
    as_they_are,
    flags,
    known_axis,
    known_sizes,
    on_axis,
    sum_of_parts,
)
from tnt_keras.partition.value import Value

_BEGIN, _END, _STRIDES = 1, 2, 3
_MASKS = {_BEGIN: "begin_mask", _END: "end_mask"}


def _blocks(elements: int | None, rows: Rows, num_rows: int) -> int | None:
    """Return how many whole blocks so many elements of the rows' axis are, None if unknown."""
    if elements is None or rows.inner is None or elements % (num_rows * rows.inner):
        return None
    return elements // (num_rows * rows.inner)


def _element(operand: Value, i: int) -> int | None:
    """Return an integer of an operand, None if it is not known."""
    return None if operand.known_elements is None else operand.known_elements[i]


@rule("ConcatV2", replicated=[-1], linear=None)
def _concat_v2(operation: Operation) -> Decision | None:
    *values, axis = operation.inputs
    placed = _joined(operation, values, axis)
    return None if placed is None else Decision((*placed[:-1], REPLICATED), placed[-1:])


@rule("Concat", replicated=[0], linear=None)
def _concat(operation: Operation) -> Decision | None:
    axis, *values = operation.inputs
    placed = _joined(operation, values, axis)
    return None if placed is None else Decision((REPLICATED, *placed[:-1]), placed[-1:])


def _joined(
    operation: Operation, values: Sequence[Value], operand: Value
) -> tuple[Placement, ...] | None:
    """Return the placements of values that are joined along an axis, and, last, of the result."""
    if all(is_total(v) for v in values):
        return (PARTIAL,) * (len(values) + 1)
    rows, rank = _first_rows(values)
    axis = None if rows is None else known_axis(operand, rank)
    if rows is None or axis is None:
        return None
    if axis != rows.axis:
        return (rows,) * (len(values) + 1)
    blocks = []
    for value in values:
        here = value.placement
        size = None if value.shape is None else value.shape[axis]
        number = _blocks(size, rows, operation.num_rows)
        if not number or (isinstance(here, Rows) and here.inner != rows.inner):
            return None
        blocks.append(number)
    return tuple(Rows(axis, number, rows.inner) for number in (*blocks, sum(blocks)))


def _first_rows(values: Sequence[Value]) -> tuple[Rows | None, int]:
    """Return where the first value with rows has them, and its rank."""
    for value in values:
        if isinstance(value.placement, Rows) and value.shape is not None:
            return value.placement, value.rank
    return None, 0


@rule("Pack", linear=None)
def _pack(operation: Operation) -> Decision | None:
    values = operation.inputs
    shape = values[0].shape
    if all(is_total(v) for v in values):
        return sum_of_parts(operation)
    if shape is None:
        return None
    labels: list[int | None] = list(range(len(shape)))
    axis = operation.attributes["axis"] % (len(shape) + 1)
    packed = [*labels[:axis], None, *labels[axis:]]
    return along_one_label(operation, [labels] * len(values), [packed])


@rule("Unpack", linear=[0])
def _unpack(operation: Operation) -> Decision | None:
    [value] = operation.inputs
    rows = value.placement
    if not isinstance(rows, Rows):
        return sum_of_parts(operation)
    axis = None if value.shape is None else operation.attributes["axis"] % value.rank
    if axis is None or axis == rows.axis:
        return None
    placed = on_axis(rows, rows.axis - (axis < rows.axis))
    return as_they_are(operation, *[placed] * len(operation.outputs))


@rule("Split", replicated=[0], linear=[1])
def _split(operation: Operation) -> Decision | None:
    axis, value = operation.inputs
    return _split_along(operation, value, axis)


@rule("SplitV", replicated=[1, 2], linear=[0])
def _split_v(operation: Operation) -> Decision | None:
    value, _, axis = operation.inputs
    return _split_along(operation, value, axis, sizes=1)


def _split_along(
    operation: Operation, value: Value, operand: Value, sizes: int | None = None
) -> Decision | None:
    """Place the parts of a value cut along an axis; one input may hold their `sizes`."""
    rows = value.placement
    if not isinstance(rows, Rows):
        return sum_of_parts(operation)
    axis = None if value.shape is None else known_axis(operand, value.rank)
    if axis is None:
        return None
    if axis != rows.axis:
        return as_they_are(operation, *[rows] * len(operation.outputs))
    parts = []
    for output in operation.outputs:
        size = None if output.shape is None else output.shape[axis]
        blocks = _blocks(size, rows, operation.num_rows)
        if not blocks:
            return None
        parts.append(Rows(axis, blocks, rows.inner))
    counted = {} if sizes is None else {sizes: (True,) * len(parts)}
    return as_they_are(operation, *parts, counts_rows=counted)


@rule("Slice", replicated=[_BEGIN, 2], linear=[0])
def _slice(operation: Operation) -> Decision | None:
    value, begin, size = operation.inputs
    rows = value.placement
    if not isinstance(rows, Rows):
        return sum_of_parts(operation)
    if value.shape is None:
        return None
    axis, whole = rows.axis, value.shape[rows.axis]
    first, elements = _element(begin, axis), _element(size, axis)
    counted = flags(value.rank, axis)
    if (first, elements) == (0, -1) or (elements is not None and elements == whole):
        return as_they_are(operation, rows, counts_rows={2: counted})
    if elements == -1 and first is not None and whole is not None:
        elements = whole - first
    start = _blocks(first, rows, operation.num_rows)
    number = _blocks(elements, rows, operation.num_rows)
    if start is None or not number:
        return None
    placed = Rows(axis, number, rows.inner)
    return as_they_are(operation, placed, counts_rows={1: counted, 2: counted})


@rule("StridedSlice", replicated=[_BEGIN, _END, _STRIDES], linear=[0])
def _strided_slice(operation: Operation) -> Decision | None:
    value = operation.inputs[0]
    rows = value.placement
    if not isinstance(rows, Rows):
        return sum_of_parts(operation)
    spec = None if value.shape is None else _slice_spec(operation, value.rank)
    if spec is None or value.shape is None:
        return None
    entry, axis = spec[rows.axis]
    taken = _taken_blocks(operation, rows, value.shape[rows.axis], entry)
    if axis is None or taken is None:
        return None
    blocks, changes = taken
    return as_they_are(operation, Rows(axis, blocks, rows.inner), **changes)


@rule("StridedSliceGrad", replicated=[0, _BEGIN, _END, _STRIDES], linear=[4])
def _strided_slice_grad(operation: Operation) -> Decision | None:
    shape, *_, derivative = operation.inputs
    rows = derivative.placement
    if not isinstance(rows, Rows):
        return sum_of_parts(operation)
    sizes = known_sizes(shape, operation.outputs[0].shape)
    spec = None if sizes is None else _slice_spec(operation, len(sizes))
    if sizes is None or spec is None:
        return None
    axis = next((a for a, (_, to) in enumerate(spec) if to == rows.axis), None)
    if axis is None:
        return None
    entry, size = spec[axis][0], sizes[axis]
    blocks: int | None = rows.outer
    if entry is not None and size is not None:
        blocks = _blocks(size, rows, operation.num_rows)
    if blocks is None:
        return None
    placed = Rows(axis, blocks, rows.inner)
    taken = _taken_blocks(operation, placed, size, entry)
    if taken is None:
        return None
    _, changes = taken
    changes["counts_rows"][0] = flags(len(sizes), axis)
    return as_they_are(operation, placed, **changes)


def _slice_spec(operation: Operation, rank: int) -> list[tuple[int | None, int | None]] | None:
    """Return what a strided slice does to each axis of the sliced value, None if that is not known.

    For each axis: the entry of `begin`, `end` and `strides` that cuts it, None if none does; and
    the axis of the result that it becomes, None if one position is picked.
    """
    strides = operation.inputs[_STRIDES].shape
    entries = None if strides is None else strides[0]
    if entries is None:
        return None
    kinds = [_kind(operation, entry) for entry in range(entries)]
    uncut = rank - kinds.count("range") - kinds.count("shrink_axis")
    spec: list[tuple[int | None, int | None]] = []
    to = 0
    for entry, kind in enumerate([*kinds, "ellipsis"]):
        if kind == "ellipsis":
            spec += [(None, to + i) for i in range(uncut)]
            to, uncut = to + uncut, 0
        elif kind != "new_axis":
            spec.append((entry, None if kind == "shrink_axis" else to))
        to += kind in ("range", "new_axis")
    return spec


def _kind(operation: Operation, entry: int) -> str:
    """Return what an entry of a strided slice stands for."""
    kinds = ("ellipsis", "new_axis", "shrink_axis")
    return next((kind for kind in kinds if _is_set(operation, f"{kind}_mask", entry)), "range")


def _is_set(operation: Operation, mask: str, entry: int) -> bool:
    return bool(operation.attributes[mask] >> entry & 1)


def _taken_blocks(
    operation: Operation, rows: Rows, size: int | None, entry: int | None
) -> tuple[int, dict[str, Any]] | None:
    """Return how many blocks of rows a strided slice takes, and changes of the decision.

    `entry` cuts the rows' axis, if one does. None if rows are picked by position, or it is not
    known which.
    """
    counted: dict[int, tuple[bool, ...]] = {}
    constants: dict[int, np.ndarray[Any, Any]] = {}
    changes: dict[str, Any] = {"counts_rows": counted, "constants": constants}
    if entry is None:
        return rows.outer, changes
    if _element(operation.inputs[_STRIDES], entry) != 1:
        return None
    bounds = {i: _bound(operation, i, entry, size) for i in _MASKS}
    if bounds[_BEGIN] == 0 and _is_set(operation, _MASKS[_END], entry):
        return rows.outer, changes
    first, last = (_blocks(bound, rows, operation.num_rows) for bound in bounds.values())
    if first is None or last is None or first >= last:
        return None
    for i, bound in bounds.items():
        operand = operation.inputs[i]
        if _is_set(operation, _MASKS[i], entry):
            continue
        counted[i] = flags(len(operand.known_elements or ()), entry)
        if _element(operand, entry) != bound:
            if operand.known_elements is None or None in operand.known_elements:
                return None
            constants[i] = np.array(operand.known_elements, object)
            constants[i][entry] = bound
    return last - first, changes


def _bound(operation: Operation, i: int, entry: int, size: int | None) -> int | None:
    """Return where a slice begins or ends on an axis, counted from 0; None if it is not known."""
    if _is_set(operation, _MASKS[i], entry):
        return 0 if i == _BEGIN else size
    said = _element(operation.inputs[i], entry)
    if said is None or said == 0:
        return said
    return None if size is None else min(max(said + size if said < 0 else said, 0), size)


@rule("PadV2", replicated=[1, 2])
@rule("MirrorPad MirrorPadGrad", replicated=[1])
@rule("Pad", replicated=[1], linear=[0])
def _pad(operation: Operation) -> Decision | None:
    value, operand = operation.inputs[:2]
    rows, padded = value.placement, operation.outputs[0].shape
    if not isinstance(rows, Rows):
        return sum_of_parts(operation)
    if value.shape is None:
        return None
    before, after = _paddings(value, operand, padded, rows.axis)
    if before == after == 0:
        return as_they_are(operation, rows)
    first = _blocks(before, rows, operation.num_rows)
    last = _blocks(after, rows, operation.num_rows)
    if first is None or last is None or operation.type.startswith("MirrorPad"):
        return None
    placed = Rows(rows.axis, first + rows.outer + last, rows.inner)
    counted = flags(2 * value.rank, 2 * rows.axis, 2 * rows.axis + 1)
    return as_they_are(operation, placed, counts_rows={1: counted})


def _paddings(
    value: Value, operand: Value, padded: Shape, axis: int
) -> tuple[int | None, int | None]:
    """Return what is put in front of an axis and behind it, None where it is not known."""
    size = None if value.shape is None else value.shape[axis]
    if size is not None and padded is not None and padded[axis] == size:
        return 0, 0
    return _element(operand, 2 * axis), _element(operand, 2 * axis + 1)
