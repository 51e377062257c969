"""Operations that give the same elements another shape, and cut, join and pad along axes.

Along the rows' axis whole blocks of the batch can be taken and joined: each replica has its rows of
each block. What picks rows by their position has no rule.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np

from tnt_keras.partition.rules.labels import along_one_label, with_axis
from tnt_keras.partition.rules.registry import Decision, Operation, as_they_are, flags, rule
from tnt_keras.partition.value import (
    REPLICATED,
    Placement,
    Shape,
    Sharded,
    Sizes,
    Unknown,
    Value,
    known,
    product,
    static,
)


def known_axis(operand: Value, rank: int) -> int:
    """Return the axis that an operand says, counted from 0."""
    if operand.constant is None or operand.constant.size != 1:
        raise Unknown
    return int(operand.constant.ravel()[0]) % rank


def known_sizes(operand: Value, shape: Shape) -> Sizes:
    """Return what is known of a shape, from the operand that says it and from TensorFlow."""
    if operand.known_elements is None:
        return known(shape)
    said = tuple(None if e is None or e < 0 else e for e in operand.known_elements)
    pairs = zip(said if shape is None else shape, said, strict=False)
    return tuple(e if size is None else size for size, e in pairs)


def _element(operand: Value, i: int) -> int | None:
    """Return an integer of an operand, None if it is not known."""
    return None if operand.known_elements is None else operand.known_elements[i]


def _blocks(elements: int | None, rows: Sharded, num_rows: int) -> int:
    """Return how many whole blocks so many elements of the rows' axis are."""
    if elements is None or rows.inner is None or elements % (num_rows * rows.inner):
        raise Unknown
    return elements // (num_rows * rows.inner)


@rule("Reshape", replicated=[1], linear=[0])
def _reshape(operation: Operation) -> Decision | None:
    value = operation.inputs[0]
    shape, sizes = value.known_shape, _reshaped_sizes(operation)
    if 0 in shape or 0 in sizes:
        return None
    given = value.rows, shape, sizes, operation.num_rows
    found = known(_from_the_left(*given) or _from_the_right(*given))
    return as_they_are(operation, found, counts_rows={1: flags(len(sizes), found.axis)})


def _reshaped_sizes(operation: Operation) -> Sizes:
    """Return what is known of the sizes that a reshape gives.

    The size that it has to find (-1) is known if the other unknown sizes are those of the value.
    Replicas are told the size: their reshape fails if it is not what it would have found.
    """
    (value, operand), [output] = operation.inputs, operation.outputs
    sizes, said = known_sizes(operand, output.shape), operand.known_elements
    if said is None or output.example_shape is None:
        return sizes
    found = [i for i, size in enumerate(sizes) if size is None and said[i] == -1]
    given = [i for i, size in enumerate(sizes) if size is None and said[i] != -1]
    before = [i for i, size in enumerate(value.known_shape) if size is None]
    example, after = value.example_shape or (), output.example_shape
    if len(found) != 1 or Counter(example[i] for i in before) != Counter(after[i] for i in given):
        return sizes
    num_elements = math.prod(value.known_sizes)
    num_others = math.prod(size for size in sizes if size is not None)
    if num_others == 0 or num_elements % num_others:
        return sizes
    return tuple(num_elements // num_others if i in found else s for i, s in enumerate(sizes))


def _from_the_left(rows: Sharded, shape: Sizes, sizes: Sizes, num_rows: int) -> Sharded | None:
    """Return where the rows are after a reshape, seen from the sizes before them.

    Row-major, a value is `before` times the rows, each of `row` elements. An axis in front of which
    `run` elements stand holds all rows if `run` divides `before`, and its size is a multiple of
    `before / run * N`. There is only one such axis, since `run` is larger than `before` behind it.
    """
    before = product(shape[: rows.axis])
    if before is None:
        return None
    before *= rows.outer
    run = 1
    for axis, size in enumerate(sizes):
        outer = before // run
        if size is None:
            row = (rows.inner or 1) * math.prod(s for s in shape[rows.axis + 1 :] if s is not None)
            rest = product(sizes[axis + 1 :])
            is_whole = before % run == 0 and rest is not None and row % rest == 0
            return Sharded(axis, outer, None) if is_whole else None
        if before % run == 0 and size % (outer * num_rows) == 0:
            return Sharded(axis, outer, size // (outer * num_rows))
        run *= size
    return None


def _from_the_right(rows: Sharded, shape: Sizes, sizes: Sizes, num_rows: int) -> Sharded | None:
    """Return the same, seen from the sizes behind the rows: those before them may be unknown."""
    row = product(shape[rows.axis + 1 :])
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
            return Sharded(axis, size // (num_rows * inner), inner)
        run *= size
    return None


@rule("ExpandDims", replicated=[1], linear=[0])
def _expand_dims(operation: Operation) -> Decision | None:
    value, operand = operation.inputs
    axis, rows = known_axis(operand, value.rank + 1), value.rows
    return as_they_are(operation, rows.on_axis(rows.axis + (axis <= rows.axis)))


@rule("Squeeze", linear=[0])
def _squeeze(operation: Operation) -> Decision | None:
    [value] = operation.inputs
    axes = {axis % value.rank for axis in operation.attributes["squeeze_dims"]}
    if not axes:
        axes = {axis for axis, size in enumerate(value.known_shape) if known(size) == 1}
    # A replica with a single row has an axis of size 1 that the whole value does not have: the axes
    # must be said, and "none" cannot be.
    at = value.rows.axis
    if not axes or at in axes:
        return None
    placed = value.rows.on_axis(at - sum(axis < at for axis in axes))
    return as_they_are(operation, placed, attributes={"squeeze_dims": sorted(axes)})


@rule("Transpose ConjugateTranspose", replicated=[1], linear=[0])
def _transpose(operation: Operation) -> Decision | None:
    value, operand = operation.inputs
    elements = known(static(operand.known_elements))
    order = [None if p is None else p % value.rank for p in elements]
    if value.rows.axis not in order:
        return None
    return as_they_are(operation, value.rows.on_axis(order.index(value.rows.axis)))


@rule("BroadcastTo", replicated=[1], is_pointwise=True)
def _broadcast_to(operation: Operation) -> Decision | None:
    value, operand = operation.inputs
    rows, sizes = value.rows, known_sizes(operand, operation.outputs[0].shape)
    axis = rows.axis + len(sizes) - value.rank
    size = value.known_shape[rows.axis]
    if size is not None and sizes[axis] not in (size, None):
        return None  # A batch of one row, repeated.
    return as_they_are(operation, rows.on_axis(axis), counts_rows={1: flags(len(sizes), axis)})


@rule("Tile", replicated=[1])
def _tile(operation: Operation) -> Decision | None:
    value, operand = operation.inputs
    rows, tiled = value.rows, operation.outputs[0].shape
    size, times = value.known_shape[rows.axis], _element(operand, rows.axis)
    if times is None and size:
        times = known(known(tiled)[rows.axis]) // size
    placed = Sharded(rows.axis, rows.outer * (times or 0), rows.inner)
    return as_they_are(operation, placed) if times else None


# Never asked for: what is filled is the same everywhere. It may be made as rows.
rule("Fill", replicated=[0, 1], is_pointwise=True)(lambda operation: None)


@rule("ConcatV2", replicated=[-1], linear=None)
@rule("Concat", replicated=[0], linear=None)
def _concat(operation: Operation) -> Decision | None:
    """Join values along an axis, which is another input: the first or the last one."""
    at = 0 if operation.type == "Concat" else len(operation.inputs) - 1
    values = [*operation.inputs[:at], *operation.inputs[at + 1 :]]
    cut = [v for v in values if isinstance(v.placement, Sharded)]
    first = known(next((v for v in cut if v.shape is not None), None))
    axis, rows = known_axis(operation.inputs[at], first.rank), first.rows
    placed: list[Placement] = [rows] * len(values)
    if axis == rows.axis:
        if any(v.rows.inner != rows.inner for v in cut):
            return None
        blocks = [_blocks(v.known_shape[axis], rows, operation.num_rows) for v in values]
        placed = [Sharded(axis, number, rows.inner) for number in blocks]
        rows = Sharded(axis, sum(blocks), rows.inner)
        if 0 in blocks:
            return None
    return Decision((*placed[:at], REPLICATED, *placed[at:]), (rows,))


@rule("Pack", linear=None)
def _pack(operation: Operation) -> Decision | None:
    labels = range(operation.inputs[0].rank)
    packed = with_axis(labels, operation.attributes["axis"])
    return along_one_label(operation, [labels] * len(operation.inputs), [packed])


@rule("Unpack", linear=[0])
def _unpack(operation: Operation) -> Decision | None:
    [value] = operation.inputs
    axis, rows = operation.attributes["axis"] % value.rank, value.rows
    placed = rows.on_axis(rows.axis - (axis < rows.axis))
    is_cut = axis == rows.axis
    return None if is_cut else as_they_are(operation, *[placed] * len(operation.outputs))


@rule("Split", replicated=[0], linear=[1])
@rule("SplitV", replicated=[1, 2], linear=[0])
def _split(operation: Operation) -> Decision | None:
    """Place the parts of a value cut along an axis; one input may hold their sizes."""
    has_sizes = operation.type == "SplitV"
    value, operand = operation.inputs[:: 2 if has_sizes else -1]
    axis, rows = known_axis(operand, value.rank), value.rows
    if axis != rows.axis:
        return as_they_are(operation, *[rows] * len(operation.outputs))
    sizes = [known(output.shape)[axis] for output in operation.outputs]
    blocks = [_blocks(size, rows, operation.num_rows) for size in sizes]
    parts = [Sharded(axis, number, rows.inner) for number in blocks]
    counted = {1: (True,) * len(parts)} if has_sizes else {}
    return as_they_are(operation, *parts, counts_rows=counted) if all(blocks) else None


_BEGIN, _END, _STRIDES = 1, 2, 3
_MASKS = {_BEGIN: "begin_mask", _END: "end_mask"}


@rule("Slice", replicated=[_BEGIN, 2], linear=[0])
def _slice(operation: Operation) -> Decision | None:
    value, begin, size = operation.inputs
    rows, axis, num_rows = value.rows, value.rows.axis, operation.num_rows
    whole = value.known_shape[axis]
    first, elements = _element(begin, axis), _element(size, axis)
    counted = flags(value.rank, axis)
    if (first, elements) == (0, -1) or (elements is not None and elements == whole):
        return as_they_are(operation, rows, counts_rows={2: counted})
    if elements == -1 and first is not None and whole is not None:
        elements = whole - first
    _blocks(first, rows, num_rows)
    number = _blocks(elements, rows, num_rows)
    if not number:
        return None
    placed = Sharded(axis, number, rows.inner)
    return as_they_are(operation, placed, counts_rows={1: counted, 2: counted})


@rule("StridedSlice", replicated=[_BEGIN, _END, _STRIDES], linear=[0])
def _strided_slice(operation: Operation) -> Decision | None:
    value = operation.inputs[0]
    rows, shape = value.rows, value.known_shape
    entry, axis = _slice_spec(operation, value.rank)[rows.axis]
    blocks, changes = _taken_blocks(operation, rows, shape[rows.axis], entry)
    return as_they_are(operation, Sharded(known(axis), blocks, rows.inner), **changes)


@rule("StridedSliceGrad", replicated=[0, _BEGIN, _END, _STRIDES], linear=[4])
def _strided_slice_grad(operation: Operation) -> Decision | None:
    shape, *_, derivative = operation.inputs
    rows = derivative.rows
    sizes = known_sizes(shape, operation.outputs[0].shape)
    spec = _slice_spec(operation, len(sizes))
    axis = known(next((a for a, (_, to) in enumerate(spec) if to == rows.axis), None))
    entry, size = spec[axis][0], sizes[axis]
    blocks = rows.outer
    if entry is not None and size is not None:
        blocks = _blocks(size, rows, operation.num_rows)
    placed = Sharded(axis, blocks, rows.inner)
    _, changes = _taken_blocks(operation, placed, size, entry)
    changes["counts_rows"][0] = flags(len(sizes), axis)
    return as_they_are(operation, placed, **changes)


def _slice_spec(operation: Operation, rank: int) -> list[tuple[int | None, int | None]]:
    """Return what a strided slice does to each axis of the sliced value.

    For each axis: the entry of `begin`, `end` and `strides` that cuts it, None if none does; and
    the axis of the result that it becomes, None if one position is picked.
    """
    num_entries = known(operation.inputs[_STRIDES].known_shape[0])
    kinds = [_kind(operation, entry) for entry in range(num_entries)]
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
    operation: Operation, rows: Sharded, size: int | None, entry: int | None
) -> tuple[int, dict[str, Any]]:
    """Return how many blocks of rows a strided slice takes, and changes of the decision.

    `entry` cuts the rows' axis, if one does. Rows must not be picked by position.
    """
    counted: dict[int, tuple[bool, ...]] = {}
    constants: dict[int, np.ndarray[Any, Any]] = {}
    changes: dict[str, Any] = {"counts_rows": counted, "constants": constants}
    if entry is None:
        return rows.outer, changes
    if _element(operation.inputs[_STRIDES], entry) != 1:
        raise Unknown
    bounds = {i: _bound(operation, i, entry, size) for i in _MASKS}
    if bounds[_BEGIN] == 0 and _is_set(operation, _MASKS[_END], entry):
        return rows.outer, changes
    first, last = (_blocks(bound, rows, operation.num_rows) for bound in bounds.values())
    if first >= last:
        raise Unknown
    for i, bound in bounds.items():
        operand = operation.inputs[i]
        if _is_set(operation, _MASKS[i], entry):
            continue
        counted[i] = flags(len(operand.known_elements or ()), entry)
        if _element(operand, entry) != bound:
            if operand.known_elements is None or None in operand.known_elements:
                raise Unknown
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
    rows, axis, padded = value.rows, value.rows.axis, operation.outputs[0].shape
    size = value.known_shape[axis]
    ends = [_element(operand, 2 * axis + end) for end in (0, 1)]
    if ends == [0, 0] or (size is not None and padded is not None and padded[axis] == size):
        return as_they_are(operation, rows)
    first, last = (_blocks(end, rows, operation.num_rows) for end in ends)
    if operation.type.startswith("MirrorPad"):
        return None
    counted = flags(2 * value.rank, 2 * axis, 2 * axis + 1)
    placed = Sharded(axis, first + rows.outer + last, rows.inner)
    return as_they_are(operation, placed, counts_rows={1: counted})
