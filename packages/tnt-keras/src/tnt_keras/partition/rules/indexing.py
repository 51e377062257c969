"""Operations that take and put elements by their index."""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from tnt_keras.partition.rules.labels import Labels, along_one_label, with_axis
from tnt_keras.partition.rules.registry import REAL, Decision, Operation, flags, rule
from tnt_keras.partition.rules.shapes import known_axis, known_sizes
from tnt_keras.partition.value import HANDLE, PARTIAL, Partial, Sharded, Value, known

_COMPLEX = frozenset({tf.complex64, tf.complex128})


def _labels(name: str, rank: int) -> list[tuple[str, int]]:
    """Return a label for each axis, all different from those of another name."""
    return [(name, axis) for axis in range(rank)]


@rule("GatherV2", replicated=[2], linear=[0])
@rule("Gather", linear=[0])
def _gather(operation: Operation) -> Decision | None:
    """Place slices of `params` along an axis, after so many axes that `indices` has as well."""
    params, indices, *rest = operation.inputs
    axis = known_axis(rest[0], params.rank) if rest else 0
    batch = operation.attributes.get("batch_dims", 0)
    batch += indices.rank if batch < 0 else 0
    common = _labels("common", batch)
    before = [*common, *_labels("before", axis - batch)]
    behind = _labels("behind", params.rank - axis - 1)
    taken = _labels("taken", indices.rank - batch)
    inputs: list[Labels] = [[*before, None, *behind], [*common, *taken], *[[]] * len(rest)]
    return along_one_label(operation, inputs, [[*before, *taken, *behind]])


@rule("GatherNd", linear=[0])
def _gather_nd(operation: Operation) -> Decision | None:
    params, indices = operation.inputs
    depth = _depth(indices)
    taken = _labels("taken", indices.rank - 1)
    whole = _labels("whole", params.rank - depth)
    inputs: list[Labels] = [[*[None] * depth, *whole], [*taken, None]]
    return along_one_label(operation, inputs, [[*taken, *whole]])


def _depth(indices: Value) -> int:
    """Return how many axes indices of several numbers each are for."""
    return known((indices.known_shape or (None,))[-1])


@rule("ResourceGather ResourceGatherNd")
def _resource_gather(operation: Operation) -> Decision | None:
    """Gather from a variable, which each replica has whole, along its first axes."""
    indices = operation.inputs[1]
    is_nd = operation.type == "ResourceGatherNd"
    axis, rank = indices.rows.axis, indices.rank
    if axis == rank - 1 if is_nd else axis < operation.attributes["batch_dims"]:
        return None
    return Decision((HANDLE, indices.rows), (indices.rows,))


@rule("OneHot", replicated=[1, 2, 3])
def _one_hot(operation: Operation) -> Decision | None:
    labels = list(range(operation.inputs[0].rank))
    return along_one_label(
        operation, [labels, [], [], []], [with_axis(labels, operation.attributes["axis"])]
    )


@rule(
    "UnsortedSegmentSum UnsortedSegmentProd UnsortedSegmentMax UnsortedSegmentMin", replicated=[2]
)
def _unsorted_segments(operation: Operation) -> Decision | None:
    """Reduce in each replica: a segment of which it has no row is the neutral element there."""
    data, segments, _ = operation.inputs
    reduction = operation.type.removeprefix("UnsortedSegment").lower()
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
    whole = [None, *_labels("whole", operation.inputs[0].rank - 1)]
    return along_one_label(operation, [whole, [None]], [whole])


@rule("ScatterNd", replicated=[2])
def _scatter_nd(operation: Operation) -> Decision | None:
    indices, updates, operand = operation.inputs
    num_sizes = len(known(known_sizes(operand, operation.outputs[0].shape)))
    put = _labels("put", indices.rank - 1)
    whole = _labels("whole", updates.rank - len(put))
    decision = along_one_label(
        operation,
        [[*put, None], [*put, *whole], [None]],
        [[*[None] * (num_sizes - len(whole)), *whole]],
        total=PARTIAL if updates.dtype in REAL | _COMPLEX else None,
    )
    match decision:
        case Decision(outputs=(Sharded(axis=axis),)):
            return dataclasses.replace(decision, counts_rows={2: flags(num_sizes, axis)})
    return decision


@rule(
    "TensorScatterUpdate TensorScatterAdd TensorScatterSub TensorScatterMax TensorScatterMin",
    replicated=[1],
)
def _tensor_scatter(operation: Operation) -> Decision | None:
    """Put whole slices into a tensor; which rows others would overwrite is not known."""
    tensor, indices, _ = operation.inputs
    depth = _depth(indices)
    whole = _labels("whole", tensor.rank - depth)
    placed = [*[None] * depth, *whole]
    put = [None] * (indices.rank - 1)
    return along_one_label(operation, [placed, [None] * indices.rank, [*put, *whole]], [placed])


_MAKES_ROWS = frozenset(
    {"RaggedTensorToTensor", "Reshape", "SparseTensorDenseMatMul", "SparseToDense"}
    | {f"UnsortedSegment{reduction}" for reduction in ("Max", "Min", "Prod", "Sum")}
)


def gives_rows(operation: Operation) -> bool:
    """Return whether an operation on replicated values gives one output with the batch's rows.

    It makes a row for each sample of values of other numbers: ragged, sparse, merged. All replicas
    have such values whole. Where they become dense, each replica goes on with its own rows, which
    sends nothing and is right for any value, also of the batch's size by chance.
    """
    if operation.type not in _MAKES_ROWS:
        return False
    size, num_rows = (operation.outputs[0].shape or (0,))[0], operation.num_rows
    if size not in (None, num_rows):
        return False
    if operation.type != "RaggedTensorToTensor":
        is_known = (operation.inputs[0].shape or (0,))[0] is not None
        return size is not None and not (operation.type == "Reshape" and is_known)
    # By the outermost partition of rows, and the size that is demanded, if any is.
    demanded = (operation.inputs[0].known_elements or (None,))[0]
    outermost = operation.inputs[3]
    has_rows = outermost.known_elements == (num_rows,)
    if operation.attributes["row_partition_types"][0] == b"ROW_SPLITS":
        has_rows = outermost.shape == (num_rows + 1,)
    return has_rows and demanded in (-1, num_rows)
