"""Local regions: functions that each lane applies to its own rows, as if they were the whole batch.

Batch normalisation with the statistics of a rank's rows is one. A region is a call of what
`local_region` returns, or of its gradient. What it returns with rows are rows; everything else
that it returns is the lane's own, and is read as the mean over lanes, each weighted by its rows. No
derivative comes back through that mean: the function must stop it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tnt_keras.partition.placement import (
    OWN,
    PARTIAL,
    REPLICATED,
    Handle,
    Own,
    Placement,
    Rows,
    local_shape,
)
from tnt_keras.partition.plan import Region, Step
from tnt_keras.partition.rules.registry import Decision, Operation
from tnt_keras.partition.traced import Edge, FlatGraph, Node, function_of, is_gradient
from tnt_keras.partition.value import Value

if TYPE_CHECKING:
    from tnt_keras.partition.analysis import Analysis


def region(analysis: Analysis, node: Node, inputs: tuple[Value, ...]) -> Step:
    """Return what lanes do for a call of a local region.

    Args:
        analysis: Walks its body.
        node: The call.
        inputs: What is known of its inputs.
    """
    demands = tuple(_demanded(v.placement) for v in inputs)
    brought = [v.placed(p) for v, p in zip(inputs, demands, strict=True)]
    flat = analysis.flat(node.body)
    whole = analysis.body(flat, [_not_own(v) for v in brought], is_region=True)
    bodies = {}
    for k in analysis.lane_rows:
        arguments = [_of_lane(v, k) for v in brought]
        bodies[k] = analysis.of_lane(k).body(flat, arguments)
    placement = PARTIAL if is_gradient(function_of(node, node.attributes["f"].name)) else OWN
    varying = _varying(flat, [isinstance(p, Rows | Own) for p in demands])
    outputs = tuple(
        _output(v, placement if edge in varying else REPLICATED)
        for v, edge in zip(whole.results, flat.outputs, strict=True)
    )
    return Region(node, inputs, demands, outputs, bodies)


def fused_batch_norm(operation: Operation) -> Decision | None:
    """Return the decision for fused batch normalisation within a region: its statistics are own ones."""
    if operation.type not in ("FusedBatchNormV3", "FusedBatchNormGradV3"):
        return None
    placements = tuple(v.placement for v in operation.inputs)
    others = (PARTIAL,) * (len(operation.outputs) - 1)
    return Decision(placements, (placements[0], *others))


def _demanded(placement: Placement) -> Placement:
    """Totals are formed before: what a lane has of them means nothing by itself."""
    return REPLICATED if placement == PARTIAL else placement


def _not_own(value: Value) -> Value:
    return value.placed(REPLICATED) if value.placement == OWN else value


def _of_lane(value: Value, num_rows: int) -> Value:
    shape = local_shape(value.shape, value.placement, num_rows)
    placement = REPLICATED if isinstance(value.placement, Rows | Own) else value.placement
    return Value(placement, shape, value.dtype, value.constant, value.elements, value.element)


def _output(value: Value, without_rows: Placement) -> Value:
    if isinstance(value.placement, Rows | Handle):
        return value
    return Value(without_rows, value.shape, value.dtype)


def _varying(flat: FlatGraph, arguments: Sequence[bool]) -> set[Edge]:
    """What depends on arguments that are another in each lane."""
    varying: set[Edge] = {
        (node, 0) for node, varies in zip(flat.arguments, arguments, strict=True) if varies
    }
    for node in flat.nodes:
        if any(edge in varying for edge in node.inputs):
            varying.update((node, i) for i in range(len(node.dtypes)))
    return varying
