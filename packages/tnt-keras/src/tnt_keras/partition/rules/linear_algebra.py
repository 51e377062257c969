"""Matrices: products and Einstein sums, and operations on the last axes."""

from __future__ import annotations

from collections.abc import Sequence

from tnt_keras.partition.rules.labels import Labels, along_one_label, broadcast_labels
from tnt_keras.partition.rules.registry import Decision, Operation, rule
from tnt_keras.partition.value import PARTIAL, REPLICATED, Placement, Shape


@rule("MatMul SparseMatMul BatchMatMul BatchMatMulV2 BatchMatMulV3")
def _product(operation: Operation) -> Decision | None:
    names = (
        ("adj_x", "adj_y") if operation.type.startswith("Batch") else ("transpose_a", "transpose_b")
    )
    first_turned, second_turned = (operation.attributes[name] for name in names)
    batches = [broadcast_labels(shape[:-2]) for shape in operation.shapes]
    matrices = (
        ["inner", "row"] if first_turned else ["row", "inner"],
        ["column", "inner"] if second_turned else ["inner", "column"],
    )
    inputs = [[*batch, *matrix] for batch, matrix in zip(batches, matrices, strict=True)]
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


@rule(" ".join(_WORKED_ON))
def _matrices(operation: Operation) -> Decision | None:
    return _batch(operation, *_WORKED_ON[operation.type])


@rule("Eig SelfAdjointEigV2")
def _eigenvalues(operation: Operation) -> Decision | None:
    return _batch(operation, [2], [1, 2 if operation.attributes["compute_v"] else None])


@rule("Svd")
def _singular_values(operation: Operation) -> Decision | None:
    vectors = 2 if operation.attributes["compute_uv"] else None
    return _batch(operation, [2], [1, vectors, vectors])


@rule("MatrixDiag MatrixDiagV2 MatrixDiagV3", replicated=[1, 2, 3, 4])
def _matrices_of_diagonals(operation: Operation) -> Decision | None:
    diagonals, matrices = operation.inputs[0].shape, operation.outputs[0].shape
    return _batch(operation, [_of_diagonals(diagonals, matrices)], [2])


@rule("MatrixDiagPart MatrixDiagPartV2 MatrixDiagPartV3", replicated=[1, 2])
def _diagonals_of_matrices(operation: Operation) -> Decision | None:
    matrices, diagonals = operation.inputs[0].shape, operation.outputs[0].shape
    return _batch(operation, [2], [_of_diagonals(diagonals, matrices)])


@rule("MatrixSetDiag MatrixSetDiagV2 MatrixSetDiagV3", replicated=[2])
def _matrices_with_diagonals(operation: Operation) -> Decision | None:
    matrices, diagonals = operation.inputs[0].shape, operation.inputs[1].shape
    return _batch(operation, [2, _of_diagonals(diagonals, matrices)], [2])


def _of_diagonals(diagonals: Shape, matrices: Shape) -> int:
    """Return how many axes belong to the diagonals of one matrix: for a range of them, two."""
    return 0 if diagonals is None or matrices is None else len(diagonals) - len(matrices) + 2


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
