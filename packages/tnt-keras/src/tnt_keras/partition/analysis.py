"""The walk over a traced graph that places every value; it makes nothing, so it may be repeated."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tnt_keras.partition import control_flow, lists
from tnt_keras.partition.folding import with_known
from tnt_keras.partition.global_shapes import GlobalShapes
from tnt_keras.partition.graph import ALIASES, Edge, FlatGraph, Node, users_line
from tnt_keras.partition.operations import is_deterministic, is_handle
from tnt_keras.partition.plan import (
    Accumulated,
    Alias,
    Body,
    Broadcast,
    Check,
    Compute,
    Count,
    Cut,
    Known,
    Step,
)
from tnt_keras.partition.random_ops import is_draw
from tnt_keras.partition.rules.indexing import gives_rows
from tnt_keras.partition.rules.registry import Decision, Entry, Operation, Output, entry_of
from tnt_keras.partition.value import (
    HANDLE,
    PARTIAL,
    PARTIAL_HANDLE,
    REPLICATED,
    ListOf,
    Partial,
    PerReplica,
    Placement,
    Shape,
    Sharded,
    Value,
    is_shared,
    is_symbolic,
    local_shape,
    replicated,
    shown,
)

_READ_NO_ELEMENTS = {"OnesLike", "Rank", "Shape", "ShapeN", "Size", "ZerosLike"}
_SIZES = {"Shape", "ShapeN", "Size"}


class PartitionError(RuntimeError):
    """A step could not be partitioned. The message names the operation and the user's line."""


class Analysis:
    """Places values. All graphs of a step share what it learns of shapes and bodies. Local.

    `num_rows` may be `ANY_ROWS`; `replica_rows` are the numbers of rows that a replica can have.
    """

    def __init__(
        self,
        num_rows: int,
        replica_rows: Sequence[int],
        shapes: GlobalShapes,
        graphs: dict[Any, FlatGraph],
    ) -> None:
        self.num_rows = num_rows
        self.replica_rows = tuple(replica_rows)
        self.placements_of_regions: dict[Node, list[Placement]] = {}
        self.shapes = shapes
        self._graphs = graphs

    def of_replica(self, num_rows: int) -> Analysis:
        """Return the analysis for a local region in a replica, whose rows are its whole batch."""
        return Analysis(num_rows, [num_rows], self.shapes, self._graphs)

    def flat(self, graph: Any) -> FlatGraph:
        """Return the body of a loop, branch or region with all calls inlined."""
        if graph not in self._graphs:
            self._graphs[graph] = FlatGraph(graph)
        return self._graphs[graph]

    def body(
        self,
        flat: FlatGraph,
        arguments: Sequence[Value],
        *,
        is_step: bool = False,
        is_region: bool = False,
    ) -> Body:
        """Return what replicas do for each node of a graph.

        `is_step`: it is the step itself, where exchanges are collected, and not a body.
        `is_region`: it is the body of a local region, of which only placements matter.
        """
        walk = _Walk(self, is_region, _readers(flat) if is_step else None)
        values = {(n, 0): value for n, value in zip(flat.arguments, arguments, strict=True)}
        steps = []
        for node in flat.nodes:
            step = walk.step(node, tuple(values[edge] for edge in node.inputs))
            steps.append(step)
            values |= {(node, i): value for i, value in enumerate(step.outputs)}
        outputs = tuple(values[edge].placement for edge in flat.outputs)
        return Body(flat, tuple(arguments), tuple(steps), values, outputs)


@dataclasses.dataclass(frozen=True)
class _Walk:
    """One walk over one graph, in which operations read the elements of each value so often."""

    _analysis: Analysis
    _is_region: bool
    _readers: Counter[Edge] | None

    def step(self, node: Node, inputs: tuple[Value, ...]) -> Step:
        """Return what replicas do for a node."""
        try:
            return self._placed(node, inputs)
        except PartitionError:
            raise
        except Exception as error:
            raise PartitionError(
                f"Operation {node.name!r} of type {node.type} ({users_line(node) or 'no line'}) "
                f"cannot be partitioned with inputs {[describe(v) for v in inputs]}: {error}"
            ) from error

    def _placed(self, node: Node, inputs: tuple[Value, ...]) -> Step:
        if node.type in ALIASES:
            placements = tuple(v.placement for v in inputs)
            if not node.controls:
                return Alias(node, inputs, placements, inputs)
            return Compute.by(Decision(placements, placements), node, inputs, inputs)
        if _picks_all(node, inputs) and not node.controls:
            return Alias(node, inputs, tuple(v.placement for v in inputs), inputs[:1])
        special = control_flow.step(self._analysis, node, inputs)
        if special is not None:
            return special
        if node.type == "Assert":
            return _check(node, inputs)
        if any(v.placement == PARTIAL_HANDLE for v in inputs):
            return _accumulated(node, inputs)
        shapes = self._analysis.shapes.infer(node, inputs)
        holds_list = any(isinstance(v.placement, ListOf) for v in inputs)
        if node.type in lists.LIST_TYPES or (holds_list and node.dtypes == [tf.variant]):
            placed = lists.place_list(node, inputs)
            if placed is not None:
                decision, outputs = placed
                if all(v.is_known for v in outputs):
                    return Known(node, inputs, decision.inputs, tuple(outputs))
                return Compute.by(decision, node, inputs, [self._with_rows(v) for v in outputs])
        outputs = with_known(node, inputs, shapes)
        examples = self._analysis.shapes.in_example(node, inputs, [v.shape for v in outputs])
        outputs = [
            v if example is None else dataclasses.replace(v, example_shape=example)
            for v, example in zip(outputs, examples, strict=True)
        ]
        if node.type == "Const" and outputs[0].constant is None:
            return self._replicated(node, inputs, outputs, False)
        if all(v.is_known for v in outputs) and outputs:
            return Known(node, inputs, tuple(v.placement for v in inputs), tuple(outputs))
        if node.type in _SIZES and any(not is_shared(v.placement) for v in inputs):
            demands = tuple(
                v.placement if isinstance(v.placement, Sharded) else replicated(v.placement)
                for v in inputs
            )
            return Count(node, inputs, demands, tuple(outputs))
        if not any(map(is_handle, node.dtypes)) and not is_deterministic(node):
            return Broadcast(
                node, inputs, tuple(replicated(v.placement) for v in inputs), tuple(outputs)
            )
        return self._computed(node, inputs, shapes, outputs)

    def _computed(
        self, node: Node, inputs: tuple[Value, ...], shapes: Sequence[Shape], outputs: list[Value]
    ) -> Step:
        entry = entry_of(node.type)
        seen = tuple(self._seen(node, i, v, entry) for i, v in enumerate(inputs))
        described = tuple(
            Output(s, v.dtype, v.example_shape) for s, v in zip(shapes, outputs, strict=True)
        )
        operation = Operation(node.type, seen, described, self._analysis.num_rows, node.attributes)
        if all(is_shared(v.placement) for v in seen):
            if gives_rows(operation):
                rows = self._with_rows(outputs[0].placed(Sharded(0)))
                return Cut(node, inputs, tuple(v.placement for v in seen), (rows,))
            return self._replicated(node, inputs, outputs, False)
        decision = entry.rule(operation) if entry is not None else None
        if decision is None and self._is_region:
            decision = control_flow.fused_batch_norm(operation)
        if decision is None or not _has_known_parts(decision):
            has_rows = any(isinstance(v.placement, Sharded) for v in seen)
            return self._replicated(node, inputs, outputs, has_rows)
        placed = zip(outputs, decision.outputs, strict=True)
        return Compute.by(decision, node, inputs, [self._with_rows(v.placed(p)) for v, p in placed])

    def _with_rows(self, value: Value) -> Value:
        """Return the value with the size of the rows' axis, if the shape function has none."""
        if not isinstance(value.placement, Sharded) or value.shape is None:
            return value
        if value.shape[value.placement.axis] is not None:
            return value
        shape = local_shape(value.shape, value.placement, self._analysis.num_rows)
        return dataclasses.replace(value, shape=shape)

    def _seen(self, node: Node, i: int, value: Value, entry: Entry | None) -> Value:
        """Return what a rule sees of an input: replicated, unless the rule can take it as it is."""
        if is_shared(value.placement):
            return value
        if entry is None or i in entry.replicated or i - len(node.inputs) in entry.replicated:
            return value.placed(replicated(value.placement))
        if isinstance(value.placement, PerReplica):
            return value.placed(REPLICATED)
        if isinstance(value.placement, Partial):
            is_linear = entry.linear is None or i in entry.linear
            # What several read is reduced once, not each of the values made of it.
            is_read_once = self._readers is None or self._readers[node.inputs[i]] <= 1
            if value.placement != PARTIAL or not is_linear or not is_read_once:
                return value.placed(REPLICATED)
        return value

    def _replicated(
        self, node: Node, inputs: tuple[Value, ...], outputs: list[Value], is_gathered: bool
    ) -> Step:
        demands = tuple(replicated(v.placement) for v in inputs)
        placed = tuple(v.placed(placement_of(v.dtype)) for v in outputs)
        decision = Decision(demands, tuple(v.placement for v in placed))
        entry = entry_of(node.type)
        is_pointwise = (entry is not None and entry.is_pointwise) or is_draw(node.type)
        on_demand = (
            is_pointwise
            and len(node.dtypes) == 1
            and not node.controls
            and all(v.shape is not None for v in inputs)
            and placed[0].shape is not None
        )
        return Compute(node, inputs, demands, placed, decision, on_demand, is_gathered)


def _has_known_parts(decision: Decision) -> bool:
    """Return whether no placement has as many parts as the batch has rows."""
    placements = (*decision.inputs, *decision.outputs)
    return not any(
        isinstance(p, Sharded) and any(map(is_symbolic, (p.outer, p.inner))) for p in placements
    )


def describe(value: Value) -> str:
    """Return a value's placement, dtype and shape for messages."""
    sizes = (
        "?"
        if value.shape is None
        else ", ".join("?" if s is None else shown(s) for s in value.shape)
    )
    return f"{value.placement} {value.dtype.name}[{sizes}]"


def _accumulated(node: Node, inputs: tuple[Value, ...]) -> Step:
    """Return the step of a variable that holds a partial sum in each process, and goes on to."""
    if node.type == "ReadVariableOp":
        shape = tuple(node.shapes[0].as_list())
        return Accumulated(
            node, inputs, (PARTIAL_HANDLE,), (Value(PARTIAL, shape, node.dtypes[0]),)
        )
    if node.type in ("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"):
        return Accumulated(node, inputs, (PARTIAL_HANDLE, PARTIAL), ())
    raise ValueError("A variable of partial sums can only be read, assigned and added to.")


def _picks_all(node: Node, inputs: Sequence[Value]) -> bool:
    """Return whether an operation picks all rows of a value in their order: loops over rows do."""
    if node.type != "GatherV2" or inputs[0].shape is None or node.attributes["batch_dims"]:
        return False
    picked, axis = inputs[1].constant, inputs[2].constant
    if picked is None or axis is None or picked.ndim != 1:
        return False
    size = inputs[0].shape[int(axis)]
    return picked.size == size and np.array_equal(picked, np.arange(size)) and size > 0


def _check(node: Node, inputs: tuple[Value, ...]) -> Step:
    """Return the step of an assertion: it holds for the batch if it holds in every replica."""

    def local(value: Value) -> Placement:
        is_condition = value is inputs[0]
        if is_condition and value.placement == Partial("and"):
            return value.placement
        return REPLICATED if isinstance(value.placement, Partial | PerReplica) else value.placement

    return Check(node, inputs, tuple(local(v) for v in inputs), ())


def _readers(flat: FlatGraph) -> Counter[Edge]:
    """Return how many operations read the elements of each value."""
    readers: Counter[Edge] = Counter(flat.outputs)
    for node in flat.nodes:
        if node.type not in _READ_NO_ELEMENTS:
            readers.update(set(node.inputs))
    return readers


def placement_of(dtype: tf.DType) -> Placement:
    """Return the placement of what all replicas hold alike."""
    if dtype == tf.resource:
        return HANDLE
    return ListOf(REPLICATED) if dtype == tf.variant else REPLICATED
