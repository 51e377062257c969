"""Convolutions in groups, with filters for each row of the batch.

Where a network makes filters for each sample, batch and channels are merged: one image holds the
channels of all rows, and each group of channels belongs to one row. So rows are along the channels
of images and results, and along an axis of the filters.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from tnt_keras.partition.placement import REPLICATED, Placement, Rows, Shape
from tnt_keras.partition.rules.registry import Decision, Operation
from tnt_keras.partition.rules.shapes import flags


@dataclasses.dataclass(frozen=True, slots=True)
class _Placed:
    """Where rows are in the three values of a convolution."""

    images: Rows
    filters: Rows
    results: Rows


def results_of_own_filters(operation: Operation) -> Decision | None:
    """Place a convolution of images and filters."""
    images, filters = operation.inputs
    placed = _placed(operation, images.shape, filters.shape)
    if placed is None:
        return None
    return _decision(operation, {0: placed.images, 1: placed.filters}, placed.results)


def images_of_own_filters(operation: Operation) -> Decision | None:
    """Place the derivative for images, made of their sizes, filters and that of the results."""
    sizes, filters, _ = operation.inputs
    images = operation.outputs[0].shape
    if images is None or sizes.num_elements != len(images):
        return None
    placed = _placed(operation, images, filters.shape)
    if placed is None:
        return None
    counts_rows = {0: flags(len(images), placed.images.axis)}
    inputs = {1: placed.filters, 2: placed.results}
    return _decision(operation, inputs, placed.images, counts_rows)


def filters_of_own_filters(operation: Operation) -> Decision | None:
    """Place the derivative for filters, made of images, sizes and that of the results."""
    images, filters = operation.inputs[0], operation.outputs[0].shape
    placed = _placed(operation, images.shape, filters)
    if placed is None or filters is None:
        return None
    counts_rows = {1: flags(len(filters), placed.filters.axis)}
    inputs = {0: placed.images, 2: placed.results}
    return _decision(operation, inputs, placed.filters, counts_rows)


def _placed(operation: Operation, images: Shape, filters: Shape) -> _Placed | None:
    """Return where rows are, None if a group of channels would belong to several of them."""
    if images is None or filters is None or not operation.with_rows():
        return None
    axis = 1 if operation.attributes["data_format"].startswith(b"NC") else len(images) - 1
    channels, (depth, num_results) = images[axis], filters[-2:]
    if channels is None or depth is None or num_results is None:
        return None
    first = operation.inputs[operation.with_rows()[0]].placement
    assert isinstance(first, Rows)
    num_groups = first.outer * operation.num_rows
    is_depthwise = operation.type.startswith("Depthwise")
    filter_axis = len(filters) - (2 if is_depthwise else 1)
    if is_depthwise:
        depth, num_results = 1, channels * num_results
    if channels % (num_groups * depth) or num_results % num_groups:
        return None
    inner, results = channels // num_groups, num_results // num_groups
    return _Placed(
        Rows(axis, first.outer, inner),
        Rows(filter_axis, first.outer, inner if is_depthwise else results),
        Rows(axis, first.outer, results),
    )


def _decision(
    operation: Operation,
    inputs: Mapping[int, Rows],
    output: Rows,
    counts_rows: Mapping[int, Sequence[bool]] | None = None,
) -> Decision | None:
    """Return the decision, None if an input has its rows elsewhere."""
    if any(operation.inputs[i].placement != inputs.get(i) for i in operation.with_rows()):
        return None
    demands: list[Placement] = [inputs.get(i, REPLICATED) for i in range(len(operation.inputs))]
    return Decision(tuple(demands), (output,), counts_rows or {})
