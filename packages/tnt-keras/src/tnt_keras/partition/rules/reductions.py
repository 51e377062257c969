"""Operations that reduce along axes."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tnt_keras.partition.placement import PARTIAL, REPLICATED, Partial
from tnt_keras.partition.rules.axis_labels import Labels, along_one_label, known_shapes
from tnt_keras.partition.rules.elementwise import channel_axis
from tnt_keras.partition.rules.registry import REAL, Decision, Operation, is_total, rule

_OVER_LANES = {"Max": "max", "Min": "min", "Prod": "prod", "All": "and", "Any": "or"}

_COMPARABLE = REAL | {tf.bool}


@rule("Sum Mean", replicated=[1], linear=[0])
def _sum_or_mean(operation: Operation) -> Decision | None:
    """Make totals, and leave totals what they are; but not of quotients of integers."""
    value = operation.inputs[0]
    is_mean = operation.type == "Mean"
    if is_mean and not (value.dtype.is_floating or value.dtype.is_complex):
        return _along_axes(operation, total=None)
    if is_total(value):
        return Decision((PARTIAL, REPLICATED), (PARTIAL,))
    return _along_axes(operation, total=PARTIAL, weighted=is_mean)


@rule("Max Min Prod All Any", replicated=[1])
def _other_reduction(operation: Operation) -> Decision | None:
    """Reduce the rows of each lane; lanes are reduced where the value is read."""
    is_comparable = operation.inputs[0].dtype in _COMPARABLE
    return _along_axes(
        operation, total=Partial(_OVER_LANES[operation.type]) if is_comparable else None
    )


@rule("EuclideanNorm ArgMax ArgMin", replicated=[1])
def _reduction_without_rows(operation: Operation) -> Decision | None:
    """Refuse reductions over rows: they do not follow from those of the lanes."""
    return _along_axes(operation, total=None)


def _along_axes(
    operation: Operation, total: Partial | None, weighted: bool = False
) -> Decision | None:
    """Return the decision for axes that are an operation's second input."""
    value, axes = operation.inputs
    if value.shape is None or axes.constant is None:
        return None
    rank = len(value.shape)
    reduced = {int(axis) % rank for axis in np.ravel(axes.constant)}
    keeps = operation.attributes.get("keep_dims", False)
    left = [None if a in reduced else a for a in range(rank) if keeps or a not in reduced]
    return along_one_label(operation, [range(rank), []], [left], total=total, weighted=weighted)


@rule("L2Loss")
def _half_of_squares(operation: Operation) -> Decision:
    return Decision((operation.inputs[0].placement,), (PARTIAL,))


@rule("BiasAddGrad")
def _gradient_of_bias(operation: Operation) -> Decision | None:
    """Sum over all axes but that of the channels."""
    shapes = known_shapes(operation)
    if shapes is None:
        return None
    axes = range(len(shapes[0]))
    return along_one_label(operation, [axes], [[channel_axis(operation)]], total=PARTIAL)


@rule("Bincount", replicated=[1])
def _count(operation: Operation) -> Decision | None:
    """Count all elements, or sum their weights."""
    return _counts(operation, [None])


@rule("DenseBincount", replicated=[1])
def _count_in_each_row(operation: Operation) -> Decision | None:
    """Count in each row of a matrix, or in a vector."""
    is_matrix = operation.inputs[0].shape is not None and operation.inputs[0].rank == 2
    return _counts(operation, [0, None] if is_matrix else [None])


def _counts(operation: Operation, result: list[int | None]) -> Decision | None:
    shapes = known_shapes(operation)
    if shapes is None:
        return None
    values, _, weights = shapes
    axes = range(len(values))
    is_sum = not operation.attributes.get("binary_output", False)
    return along_one_label(
        operation,
        [axes, [], [] if 0 in weights else axes],
        [result],
        total=PARTIAL if is_sum else None,
    )


@rule("InTopK InTopKV2")
def _in_top_k(operation: Operation) -> Decision | None:
    inputs: list[Labels] = [[0, None], [0], []]
    return along_one_label(operation, inputs[: len(operation.inputs)], [[0]])
