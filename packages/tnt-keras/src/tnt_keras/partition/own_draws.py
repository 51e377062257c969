"""Draws whose rows each lane may draw for itself, instead of those of the serial run."""

from __future__ import annotations

from typing import Any

from tnt_keras.partition.draws import is_draw
from tnt_keras.partition.emission import operand_placements
from tnt_keras.partition.flat_graph import Edge, Node
from tnt_keras.partition.placement import REPLICATED, Placement, Rows
from tnt_keras.partition.plan import Alias, Body, Compute, Known


def own_draws(plan: Body) -> frozenset[Node]:
    """Return the draws that are read as rows in one placement, and never as a whole. Pure.

    A draw may occur twice, where a forward pass is computed again: of draws of one kind, dtype and
    shape all or none are returned.
    """
    kinds: dict[Any, set[Placement]] = {}
    draws = []
    for body in plan.with_inner():
        reads = _reads(body)
        for step in body.steps:
            if isinstance(step, Compute) and is_draw(step.node.type):
                kind = step.node.type, step.outputs[0].dtype, step.outputs[0].shape
                kinds.setdefault(kind, set()).update(reads.get((step.node, 0), ()))
                draws.append((kind, step.node))
    as_rows = {k for k, [*read] in kinds.items() if len(read) == 1 and isinstance(read[0], Rows)}
    return frozenset(node for kind, node in draws if kind in as_rows)


def _reads(body: Body) -> dict[Edge, set[Placement]]:
    """Return the placements in which each value is read."""
    reads: dict[Edge, set[Placement]] = {}

    def read(edge: Edge, *placements: Placement) -> None:
        reads.setdefault(edge, set()).update(placements)

    for edge, placement in zip(body.flat.outputs, body.outputs, strict=True):
        read(edge, placement)
    for step in reversed(body.steps):
        inputs = step.node.inputs
        match step:
            case Known():
                continue
            case Alias():
                for i in range(len(step.outputs)):
                    read(inputs[i], *reads.get((step.node, i), ()))
            case Compute(on_demand=True):
                for placement in reads.get((step.node, 0), ()):
                    of_rows = isinstance(placement, Rows) and operand_placements(step, placement)
                    placements = of_rows or [REPLICATED] * len(inputs)
                    for edge, each in zip(inputs, placements, strict=True):
                        read(edge, each)
            case _:
                for edge, placement in zip(inputs, step.demands, strict=True):
                    read(edge, placement)
    return reads
