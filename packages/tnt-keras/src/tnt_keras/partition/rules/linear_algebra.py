"""Matrices: products and Einstein sums, and operations on the last axes."""

from __future__ import annotations

from collections.abc import Sequence

from tnt_keras.partition.rules.labels import Labels, along_one_label, broadcast_labels
from tnt_keras.partition.rules.registry import Decision, Operation, rule
from tnt_keras.partition.value import PARTIAL, REPLICATED, Placement, Value


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
