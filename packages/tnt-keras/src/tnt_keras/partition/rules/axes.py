"""Operations along axes and on matrices, whose elements they sum or make depend on each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tnt_keras.partition.rules.elementwise import channel_axis
from tnt_keras.partition.rules.labels import Labels, along_one_label, beside, broadcast_labels
from tnt_keras.partition.rules.registry import (
    REAL,
    Decision,
    Operation,
    as_they_are,
    is_partial_sum,
    rule,
)
from tnt_keras.partition.value import PARTIAL, REPLICATED, Partial, Placement, Value, known

_OVER_REPLICAS = {"Max": "max", "Min": "min", "Prod": "prod", "All": "and", "Any": "or"}

_COMPARABLE = REAL | {tf.bool}
_IMAGES = (0, 1, 2, None)


@rule("Sum Mean", replicated=[1], takes_partial_sums=[0])
def _sum_or_mean(operation: Operation) -> Decision | None:
    """Make totals, and leave totals what they are; but not of quotients of integers."""
    value, is_mean = operation.inputs[0], operation.type == "Mean"
    if is_mean and not (value.dtype.is_floating or value.dtype.is_complex):
        return _reduced(operation, total=None)
    if is_partial_sum(value):
        return as_they_are(operation, PARTIAL)
    return _reduced(operation, total=PARTIAL, weighted=is_mean)


@rule("Max Min Prod All Any", replicated=[1])
def _other_reduction(operation: Operation) -> Decision | None:
    """Reduce the rows of each replica; replicas are reduced where the value is read."""
    is_comparable = operation.inputs[0].dtype in _COMPARABLE
    return _reduced(operation, Partial(_OVER_REPLICAS[operation.type]) if is_comparable else None)


# Over rows they do not follow from those of the replicas.
rule("EuclideanNorm ArgMax ArgMin", replicated=[1])(lambda op: _reduced(op, total=None))


def _reduced(
    operation: Operation, total: Partial | None, weighted: bool = False
) -> Decision | None:
    """Return the decision for axes that are an operation's second input."""
    rank = operation.inputs[0].rank
    reduced = {int(axis) % rank for axis in np.ravel(known(operation.inputs[1].constant))}
    keeps = operation.attributes.get("keep_dims", False)
    left = [None if a in reduced else a for a in range(rank) if keeps or a not in reduced]
    return along_one_label(operation, [range(rank), []], [left], total=total, weighted=weighted)


rule("L2Loss")(lambda operation: as_they_are(operation, PARTIAL))


@rule("BiasAddGrad")
def _gradient_of_bias(operation: Operation) -> Decision | None:
    """Sum over all axes but that of the channels."""
    axes = range(len(operation.shapes[0]))
    return along_one_label(operation, [axes], [[channel_axis(operation)]], total=PARTIAL)


@rule("Bincount DenseBincount", replicated=[1])
def _counts(operation: Operation) -> Decision | None:
    """Count all elements, or sum their weights; or in each row of a matrix, if it is dense."""
    values, _, weights = operation.shapes
    axes = range(len(values))
    is_by_row = operation.type == "DenseBincount" and len(values) == 2
    is_sum = not operation.attributes.get("binary_output", False)
    return along_one_label(
        operation,
        [axes, [], [] if 0 in weights else axes],
        [[0, None] if is_by_row else [None]],
        total=PARTIAL if is_sum else None,
    )


@rule("Softmax LogSoftmax TopKV2 FFT IFFT RFFT IRFFT", replicated=[1])
@rule("FFT2D IFFT2D RFFT2D IRFFT2D FFT3D IFFT3D RFFT3D IRFFT3D", replicated=[1])
def _along_last(operation: Operation) -> Decision | None:
    num_axes = next((n for n in (2, 3) if operation.type.endswith(f"FFT{n}D")), 1)
    return beside(operation, range(-num_axes, 0))


@rule("Roll", replicated=[1, 2])
@rule("Cumsum Cumprod CumulativeLogsumexp", replicated=[1])
def _along_given(operation: Operation) -> Decision | None:
    """Take the axes from the last input."""
    return beside(operation, np.ravel(known(operation.inputs[-1].constant)))


@rule("Reverse ReverseV2", replicated=[1], linear=[0])
def _reversal(operation: Operation) -> Decision | None:
    """Take axes by their numbers, or as one bool for each."""
    axes = known(operation.inputs[1].constant)
    return beside(operation, np.flatnonzero(axes) if axes.dtype == np.bool_ else axes)


@rule("ReverseSequence")
def _reversal_of_sequences(operation: Operation) -> Decision | None:
    """Cut the lengths as the batch."""
    rank = len(operation.shapes[0])
    along, batch = (operation.attributes[name] % rank for name in ("seq_dim", "batch_dim"))
    labels = [None if axis == along else axis for axis in range(rank)]
    return along_one_label(operation, [labels, [batch]], [labels])


@rule("SoftmaxCrossEntropyWithLogits")
def _cross_entropy(operation: Operation) -> Decision | None:
    """Broadcast logits and probabilities."""
    rows = [[*broadcast_labels(shape[:1]), None] for shape in operation.shapes]
    return along_one_label(operation, rows, [[-1], [-1, None]])


# The axes of each input and output, with the same number where they are cut together.
_CUT_TOGETHER: dict[str, tuple[list[Labels], list[Labels]]] = {
    "InTopK": ([[0, None], [0]], [[0]]),
    "InTopKV2": ([[0, None], [0], []], [[0]]),
    "LRN": ([_IMAGES], [_IMAGES]),
    "LRNGrad": ([_IMAGES] * 3, [_IMAGES]),
    "LowerBound": ([[0, None], [0, 1]], [[0, 1]]),
    "SparseSoftmaxCrossEntropyWithLogits": ([[0, None], [0]], [[0], [0, None]]),
    "UpperBound": ([[0, None], [0, 1]], [[0, 1]]),
}


rule(" ".join(_CUT_TOGETHER))(lambda op: along_one_label(op, *_CUT_TOGETHER[op.type]))


@rule("NthElement")
def _nth_element(operation: Operation) -> Decision | None:
    axes = range(len(operation.shapes[0]) - 1)
    return along_one_label(operation, [[*axes, None], []], [axes])


@rule("MatMul SparseMatMul BatchMatMul BatchMatMulV2 BatchMatMulV3")
def _product(operation: Operation) -> Decision | None:
    is_batch = operation.type.startswith("Batch")
    names = ("adj_x", "adj_y") if is_batch else ("transpose_a", "transpose_b")
    batches = [broadcast_labels(shape[:-2]) for shape in operation.shapes]
    inputs = [
        [*labels, *(reversed(matrix) if operation.attributes[name] else matrix)]
        for labels, matrix, name in zip(
            batches, (("row", "inner"), ("inner", "column")), names, strict=True
        )
    ]
    batch = range(-max(map(len, batches)), 0)
    return along_one_label(operation, inputs, [[*batch, "row", "column"]], total=PARTIAL)


@rule("Einsum")
def _einstein_sum(operation: Operation) -> Decision | None:
    """Axes of the ellipsis are aligned from the last of them, with broadcasting."""
    left, right = operation.attributes["equation"].decode().split("->")
    inputs, longest = [], 0
    for term, shape in zip(left.split(","), operation.shapes, strict=True):
        head, _, tail = term.partition("...")
        ellipsis = broadcast_labels(shape[len(head) : len(shape) - len(tail)])
        inputs.append([*head, *ellipsis, *tail])
        longest = max(longest, len(ellipsis))
    head, dots, tail = right.partition("...")
    output = [*head, *(range(-longest, 0) if dots else ()), *tail]
    return along_one_label(operation, inputs, [output], total=PARTIAL)


# How many axes of each input and output are worked on. Further inputs are numbers for all.
_WORKED_ON = {
    "BandedTriangularSolve": ((2, 2), (2,)),
    "Cholesky": ((2,), (2,)),
    "CholeskyGrad": ((2, 2), (2,)),
    "Cross": ((1, 1), (1,)),
    "LogMatrixDeterminant": ((2,), (0, 0)),
    "Lu": ((2,), (2, 1)),
    "MatrixBandPart": ((2,), (2,)),
    "MatrixDeterminant": ((2,), (0,)),
    "MatrixInverse": ((2,), (2,)),
    "MatrixLogarithm": ((2,), (2,)),
    "MatrixSolve": ((2, 2), (2,)),
    "MatrixSolveLs": ((2, 2), (2,)),
    "MatrixSquareRoot": ((2,), (2,)),
    "MatrixTriangularSolve": ((2, 2), (2,)),
    "Qr": ((2,), (2, 2)),
    "TridiagonalMatMul": ((2, 2, 2, 2), (2,)),
    "TridiagonalSolve": ((2, 2), (2,)),
}


rule(" ".join(_WORKED_ON))(lambda operation: _batch(operation, *_WORKED_ON[operation.type]))


@rule("Eig SelfAdjointEigV2 Svd")
def _decomposition(operation: Operation) -> Decision | None:
    has_two = operation.type == "Svd"
    vectors = 2 if operation.attributes["compute_uv" if has_two else "compute_v"] else None
    return _batch(operation, [2], [1, *[vectors] * (1 + has_two)])


@rule("MatrixDiag MatrixDiagV2 MatrixDiagV3", replicated=[1, 2, 3, 4])
def _matrices_of_diagonals(operation: Operation) -> Decision | None:
    return _batch(operation, [_of_diagonals(operation.inputs[0], operation.outputs[0])], [2])


@rule("MatrixDiagPart MatrixDiagPartV2 MatrixDiagPartV3", replicated=[1, 2])
def _diagonals_of_matrices(operation: Operation) -> Decision | None:
    return _batch(operation, [2], [_of_diagonals(operation.outputs[0], operation.inputs[0])])


@rule("MatrixSetDiag MatrixSetDiagV2 MatrixSetDiagV3", replicated=[2])
def _matrices_with_diagonals(operation: Operation) -> Decision | None:
    matrices, diagonals, *_ = operation.inputs
    return _batch(operation, [2, _of_diagonals(diagonals, matrices)], [2])


def _of_diagonals(diagonals: Value, matrices: Value) -> int:
    """Return how many axes belong to the diagonals of one matrix: for a range of them, two."""
    if diagonals.shape is None or matrices.shape is None:
        return 0
    return len(diagonals.shape) - len(matrices.shape) + 2


def _batch(
    operation: Operation, inputs: Sequence[int], outputs: Sequence[int | None]
) -> Decision | None:
    """Return the decision for rows along the axes before those worked on, which are broadcast.

    `inputs` and `outputs` say how many axes are worked on, None for an output that is empty
    instead; further inputs have no rows.
    """
    shapes = operation.shapes
    labels: list[Labels] = [broadcast_labels(s, n) for s, n in zip(shapes, inputs, strict=False)]
    batch = max(len(shape) - n for shape, n in zip(shapes, inputs, strict=False))
    results: list[Labels | Placement] = [
        REPLICATED if n is None else [*range(-batch, 0), *[None] * n] for n in outputs
    ]
    return along_one_label(operation, [*labels, *[()] * (len(shapes) - len(inputs))], results)
