"""Operations that take and put elements by their index."""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from tnt_keras.partition.placement import HANDLE, PARTIAL, Partial, Rows
from tnt_keras.partition.rules.axis_labels import Labels, along_one_label
from tnt_keras.partition.rules.registry import REAL, Decision, Operation, rule
from tnt_keras.partition.rules.shapes import flags, known_axis, known_sizes, sum_of_parts

_COMPLEX = frozenset({tf.complex64, tf.complex128})


def _labels(name: str, rank: int) -> list[tuple[str, int]]:
    """Return a label for each axis, all different from those of another name."""
    return [(name, axis) for axis in range(rank)]


@rule("GatherV2", replicated=[2], linear=[0])
def _gather_v2(operation: Operation) -> Decision | None:
    params, indices, operand = operation.inputs
    if params.shape is None or indices.shape is None:
        return None
    axis = known_axis(operand, params.rank)
    batch = operation.attributes["batch_dims"]
    return _gather_along(operation, axis, batch if batch >= 0 else batch + indices.rank)


@rule("Gather", linear=[0])
def _gather(operation: Operation) -> Decision | None:
    return _gather_along(operation, 0, 0)


def _gather_along(operation: Operation, axis: int | None, batch: int) -> Decision | None:
    """Place slices of `params` along an axis, after so many axes that `indices` has as well."""
    params, indices, *rest = operation.inputs
    if axis is None or params.shape is None or indices.shape is None:
        return None
    common = _labels("common", batch)
    before = [*common, *_labels("before", axis - batch)]
    behind = _labels("behind", params.rank - axis - 1)
    taken = _labels("taken", indices.rank - batch)
    inputs: list[Labels] = [[*before, None, *behind], [*common, *taken], *[[]] * len(rest)]
    result = [*before, *taken, *behind]
    return sum_of_parts(operation) or along_one_label(operation, inputs, [result])


@rule("GatherNd", linear=[0])
def _gather_nd(operation: Operation) -> Decision | None:
    params, indices = operation.inputs
    if params.shape is None or not indices.shape or (depth := indices.shape[-1]) is None:
        return None
    taken = _labels("taken", indices.rank - 1)
    whole = _labels("whole", params.rank - depth)
    inputs: list[Labels] = [[*[None] * depth, *whole], [*taken, None]]
    return sum_of_parts(operation) or along_one_label(operation, inputs, [[*taken, *whole]])


@rule("ResourceGather ResourceGatherNd")
def _resource_gather(operation: Operation) -> Decision | None:
    """Gather from a variable, which each lane has whole, along its first axes."""
    indices = operation.inputs[1]
    rows = indices.placement
    if not isinstance(rows, Rows) or indices.shape is None:
        return None
    is_nd = operation.type == "ResourceGatherNd"
    if rows.axis == indices.rank - 1 if is_nd else rows.axis < operation.attributes["batch_dims"]:
        return None
    return Decision((HANDLE, rows), (rows,))


@rule("OneHot", replicated=[1, 2, 3])
def _one_hot(operation: Operation) -> Decision | None:
    indices = operation.inputs[0]
    if indices.shape is None:
        return None
    labels: list[int | None] = list(range(indices.rank))
    axis = operation.attributes["axis"] % (indices.rank + 1)
    hot = [*labels[:axis], None, *labels[axis:]]
    return along_one_label(operation, [labels, [], [], []], [hot])


@rule(
    "UnsortedSegmentSum UnsortedSegmentProd UnsortedSegmentMax UnsortedSegmentMin", replicated=[2]
)
def _unsorted_segments(operation: Operation) -> Decision | None:
    """Reduce in each lane: a segment of which it has no row is the neutral element there."""
    data, segments, _ = operation.inputs
    reduction = operation.type.removeprefix("UnsortedSegment").lower()
    if data.shape is None or segments.shape is None:
        return None
    numbers = REAL | _COMPLEX if reduction == "sum" else REAL
    reduced = _labels("reduced", segments.rank)
    whole = _labels("whole", data.rank - segments.rank)
    return along_one_label(
        operation,
        [[*reduced, *whole], reduced, []],
        [[None, *whole]],
        total=Partial(reduction) if data.dtype in numbers else None,
    )


@rule("SegmentSum SegmentMean SegmentProd SegmentMax SegmentMin")
def _sorted_segments(operation: Operation) -> Decision | None:
    """Reduce whole slices: how many segments there are depends on all of the segments' numbers."""
    data = operation.inputs[0]
    if data.shape is None:
        return None
    whole = [None, *_labels("whole", data.rank - 1)]
    return along_one_label(operation, [whole, [None]], [whole])


@rule("ScatterNd", replicated=[2])
def _scatter_nd(operation: Operation) -> Decision | None:
    indices, updates, operand = operation.inputs
    sizes = known_sizes(operand, operation.outputs[0].shape)
    if not indices.shape or updates.shape is None or sizes is None:
        return None
    put = _labels("put", indices.rank - 1)
    whole = _labels("whole", updates.rank - len(put))
    decision = along_one_label(
        operation,
        [[*put, None], [*put, *whole], [None]],
        [[*[None] * (len(sizes) - len(whole)), *whole]],
        total=PARTIAL if updates.dtype in REAL | _COMPLEX else None,
    )
    match decision:
        case Decision(outputs=(Rows(axis=axis),)):
            return dataclasses.replace(decision, counts_rows={2: flags(len(sizes), axis)})
    return decision


@rule(
    "TensorScatterUpdate TensorScatterAdd TensorScatterSub TensorScatterMax TensorScatterMin",
    replicated=[1],
)
def _tensor_scatter(operation: Operation) -> Decision | None:
    """Put whole slices into a tensor; which rows others would overwrite is not known."""
    tensor, indices, _ = operation.inputs
    if tensor.shape is None or not indices.shape or (depth := indices.shape[-1]) is None:
        return None
    whole = _labels("whole", tensor.rank - depth)
    placed = [*[None] * depth, *whole]
    put = [None] * (indices.rank - 1)
    return along_one_label(operation, [placed, [None] * indices.rank, [*put, *whole]], [placed])
