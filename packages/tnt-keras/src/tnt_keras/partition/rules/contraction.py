"""Sums of products: matrix products and Einstein sums."""

from __future__ import annotations

from tnt_keras.partition.placement import PARTIAL
from tnt_keras.partition.rules.axis_labels import along_one_label, broadcast_labels, known_shapes
from tnt_keras.partition.rules.registry import Decision, Operation, rule


@rule("MatMul SparseMatMul")
def _product_of_matrices(operation: Operation) -> Decision | None:
    attributes = operation.attributes
    return _product(operation, attributes["transpose_a"], attributes["transpose_b"])


@rule("BatchMatMul BatchMatMulV2 BatchMatMulV3")
def _products_of_matrices(operation: Operation) -> Decision | None:
    return _product(operation, operation.attributes["adj_x"], operation.attributes["adj_y"])


def _product(operation: Operation, first_turned: bool, second_turned: bool) -> Decision | None:
    shapes = known_shapes(operation)
    if shapes is None:
        return None
    batches = [broadcast_labels(shape[:-2]) for shape in shapes]
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
    shapes = known_shapes(operation)
    if shapes is None:
        return None
    left, right = operation.attributes["equation"].decode().split("->")
    inputs, longest = [], 0
    for term, shape in zip(left.split(","), shapes, strict=True):
        head, _, tail = term.partition("...")
        ellipsis = broadcast_labels(shape[len(head) : len(shape) - len(tail)])
        inputs.append([*head, *ellipsis, *tail])
        longest = max(longest, len(ellipsis))
    head, dots, tail = right.partition("...")
    output = [*head, *(range(-longest, 0) if dots else ()), *tail]
    return along_one_label(operation, inputs, [output], total=PARTIAL)
