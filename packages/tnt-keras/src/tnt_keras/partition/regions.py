"""Local regions: functions that each lane applies to its own rows, as if they were the whole batch.

An example is batch normalisation with the statistics of a rank's rows. A region is a call of a
function that `local_region` made, or of its gradient. Outputs with rows stay the lane's rows of the
batch. Every other output is the lane's own, and is read as the mean over lanes, weighted by rows
(`k / N`). The derivative that comes back through this mean is weighted in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tnt_keras.partition.flat_graph import Edge, FlatGraph, Node, gradient_of
from tnt_keras.partition.placement import (
    OWN,
    PARTIAL,
    REPLICATED,
    Handle,
    Own,
    Partial,
    Placement,
    Rows,
    local_shape,
)
from tnt_keras.partition.plan import Region, Step
from tnt_keras.partition.row_numbers import static
from tnt_keras.partition.rules.registry import Decision, Operation
from tnt_keras.partition.value import Value

if TYPE_CHECKING:
    from tnt_keras.partition.analysis import Analysis


def region(analysis: Analysis, node: Node, inputs: tuple[Value, ...]) -> Step:
    """Return what lanes do for a call of a local region."""
    demands, weighted = _demands(analysis, node, inputs)
    brought = [v.placed(p) for v, p in zip(inputs, demands, strict=True)]
    flat = analysis.flat(node.body)
    whole = analysis.body(flat, [_not_own(v) for v in brought], is_region=True)
    bodies = {}
    for k in analysis.lane_rows:
        arguments = [_of_lane(v, k) for v in brought]
        bodies[k] = analysis.of_lane(k).body(flat, arguments)
    placement = PARTIAL if gradient_of(node) else OWN
    varying = _varying(flat, [isinstance(p, Rows | Own) for p in demands])
    outputs = tuple(
        _output(v, placement if edge in varying else REPLICATED)
        for v, edge in zip(whole.results, flat.outputs, strict=True)
    )
    analysis.placements_of_regions[node] = [v.placement for v in outputs]
    return Region(node, inputs, demands, outputs, bodies, weighted)


def fused_batch_norm(operation: Operation) -> Decision | None:
    """Return the decision for fused batch normalisation in a region: each lane has statistics."""
    if operation.type not in ("FusedBatchNormV3", "FusedBatchNormGradV3"):
        return None
    placements = tuple(v.placement for v in operation.inputs)
    others = (PARTIAL,) * (len(operation.outputs) - 1)
    return Decision(placements, (placements[0], *others))


def _demands(
    analysis: Analysis, node: Node, inputs: tuple[Value, ...]
) -> tuple[tuple[Placement, ...], frozenset[int]]:
    """Return the placements of the inputs, and which of them are derivatives of own values.

    A gradient takes the derivatives of what the function returned, in that order, and what the
    function saved for it. A derivative has the placement of its value.
    """
    demands = [REPLICATED if isinstance(v.placement, Partial) else v.placement for v in inputs]
    name = gradient_of(node)
    forward = next((n for n, _ in node.inputs if _calls(n, name)), None) if name else None
    if forward is None:
        return tuple(demands), frozenset()
    num_given = len(node.body.inputs) - len(node.body.captures)
    returned = [i for i, dtype in enumerate(forward.dtypes) if dtype.is_floating]
    weighted = set()
    for i, output in enumerate(returned[:num_given]):
        placement = analysis.placements_of_regions[forward][output]
        if placement == OWN:
            weighted.add(i)
        demands[i] = placement if isinstance(placement, Rows) else REPLICATED
    return tuple(demands), frozenset(weighted)


def _calls(node: Node, name: str) -> bool:
    return node.body is not None and node.attributes["f"].name == name


def _not_own(value: Value) -> Value:
    return value.placed(REPLICATED) if value.placement == OWN else value


def _of_lane(value: Value, num_rows: int) -> Value:
    # What depends on the rows of the batch does not follow from those of the lane.
    shape = local_shape(static(value.shape), value.placement, num_rows)
    placement = REPLICATED if isinstance(value.placement, Rows | Own) else value.placement
    elements = static(value.elements)
    return Value(placement, shape, value.dtype, value.constant, elements, value.element)


def _output(value: Value, without_rows: Placement) -> Value:
    if isinstance(value.placement, Rows | Handle):
        return value
    return Value(without_rows, value.shape, value.dtype)


def _varying(flat: FlatGraph, arguments: Sequence[bool]) -> set[Edge]:
    """Return the values that depend on arguments that differ between lanes."""
    varying: set[Edge] = {
        (node, 0) for node, varies in zip(flat.arguments, arguments, strict=True) if varies
    }
    for node in flat.nodes:
        if any(edge in varying for edge in node.inputs):
            varying.update((node, i) for i in range(len(node.dtypes)))
    return varying
