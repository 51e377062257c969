"""Decisions for operations that compute each element along some axes by itself."""

from __future__ import annotations

from collections.abc import Collection

from tnt_keras.partition.placement import PARTIAL, REPLICATED, Placement, Rows
from tnt_keras.partition.rules.registry import Decision, Operation
from tnt_keras.partition.value import size_of_axis


def rows_of_batch(operation: Operation, batches: Collection[int]) -> Rows | None:
    """Return the rows that inputs of equal size have along axis 0, or can be cut to; else None."""
    values = [operation.inputs[i] for i in batches]
    for value in values:
        rows = value.placement
        if isinstance(rows, Rows) and rows.axis == 0:
            size = size_of_axis(value, 0)
            if all(v.placement == rows or size_of_axis(v, 0) == size is not None for v in values):
                return rows
    return None


def placements(operation: Operation, batches: Collection[int], rows: Rows) -> tuple[Placement, ...]:
    """Return rows for some inputs of an operation, and that all others are replicated."""
    return tuple(rows if i in batches else REPLICATED for i in range(len(operation.inputs)))


def batchwise(operation: Operation, batches: Collection[int]) -> Decision | None:
    """Return the decision if each element along axis 0 of `batches` is computed by itself."""
    rows = rows_of_batch(operation, batches)
    if rows is None:
        return None
    return Decision(placements(operation, batches, rows), (rows,) * len(operation.outputs))


def total_over_batch(operation: Operation, batches: Collection[int]) -> Decision | None:
    """Return the decision if outputs are sums over axis 0 of some inputs."""
    rows = rows_of_batch(operation, batches)
    if rows is None:
        return None
    return Decision(placements(operation, batches, rows), (PARTIAL,) * len(operation.outputs))


def along_leading_axes(operation: Operation, num_inner: int) -> Decision | None:
    """Return the decision if each part of input 0, its last axes, is computed by itself."""
    first = operation.inputs[0]
    rows = first.placement
    if not isinstance(rows, Rows):
        return None
    if num_inner and (first.shape is None or rows.axis >= first.rank - num_inner):
        return None
    return Decision(placements(operation, [0], rows), (rows,) * len(operation.outputs))
