"""The walk over a traced graph that places every value; it makes nothing, so it may be repeated."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from tnt_keras.partition import control_flow, plan
from tnt_keras.partition.folding import with_known
from tnt_keras.partition.global_shapes import GlobalShapes
from tnt_keras.partition.graph import ALIASES, Edge, FlatGraph, Node, past_aliases, users_line
from tnt_keras.partition.lists import LIST_RULES
from tnt_keras.partition.operations import ADDITIONS, is_deterministic, is_handle
from tnt_keras.partition.plan import Body, Step
from tnt_keras.partition.random_ops import is_draw
from tnt_keras.partition.rules.indexing import gives_rows
from tnt_keras.partition.rules.registry import Decision, Entry, Operation, entry_of
from tnt_keras.partition.value import (
    HANDLE,
    PARTIAL,
    PARTIAL_HANDLE,
    REPLICATED,
    ListOf,
    Partial,
    PerReplica,
    Placement,
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

    _symbol: ClassVar[str] = "not-partitioned"

    def __str__(self) -> str:
        """Return the message, with the symbol once, at its end, even if it quotes an error."""
        mark = f" [{self._symbol}]"
        return super().__str__().replace(mark, "") + mark


class Analysis:
    """Places values. All graphs of a step share what it learns of shapes and bodies. Local.

    `num_rows` may be `ANY_ROWS`; `replica_rows` are the numbers of rows that a replica can have;
    `flat` returns the body of a loop, branch or region with all calls inlined.
    """

    def __init__(
        self,
        num_rows: int,
        replica_rows: Sequence[int],
        shapes: GlobalShapes,
        flat: Callable[[Any], FlatGraph],
    ) -> None:
        self.num_rows = num_rows
        self.replica_rows = tuple(replica_rows)
        self.placements_of_regions: dict[Node, list[Placement]] = {}
        self.shapes = shapes
        self.flat = flat

    def of_replica(self, num_rows: int) -> Analysis:
        """Return the analysis for a local region in a replica, whose rows are its whole batch."""
        return Analysis(num_rows, [num_rows], self.shapes, self.flat)

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
        of_partial_sums = {
            node
            for node, value in zip(flat.arguments, arguments, strict=True)
            if value.placement == PARTIAL_HANDLE
        }
        walk = _Walk(
            self,
            is_region,
            _readers(flat) if is_step else None,
            _accumulated(flat, of_partial_sums),
        )
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
    """One walk over one graph, in which operations read the elements of each value so often.

    `_accumulated` are additions to variables of partial sums.
    """

    _analysis: Analysis
    _is_region: bool
    _readers: Counter[Edge] | None
    _accumulated: frozenset[Node]

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
        as_they_are = tuple(v.placement for v in inputs)
        if not node.controls and (node.type in ALIASES or _picks_all(node, inputs)):
            return plan.Alias(node, inputs, as_they_are, inputs[: len(node.dtypes)])
        if node.type in ALIASES:
            return plan.Compute.by(Decision(as_they_are, as_they_are), node, inputs, inputs)
        special = control_flow.step(self._analysis, node, inputs)
        if special is not None:
            return special
        if node.type == "Assert":
            return _check(node, inputs)
        if any(v.placement == PARTIAL_HANDLE for v in inputs):
            return _of_partial_sum(node, inputs)
        shapes = self._analysis.shapes.infer(node, inputs)
        rule = LIST_RULES.get(node.type)
        placed = None if rule is None else rule(node, inputs)
        if placed is not None:
            decision, outputs = placed
            if all(v.is_known for v in outputs):
                return plan.Known(node, inputs, decision.inputs, tuple(outputs))
            return plan.Compute.by(decision, node, inputs, [self._with_rows(v) for v in outputs])
        outputs = with_known(node, inputs, shapes)
        examples = self._analysis.shapes.in_example(node, inputs, [v.shape for v in outputs])
        outputs = [
            v if example is None else dataclasses.replace(v, example_shape=example)
            for v, example in zip(outputs, examples, strict=True)
        ]
        if node.type == "Const" and outputs[0].constant is None:
            return self._replicated(node, inputs, outputs, False)
        if all(v.is_known for v in outputs) and outputs:
            return plan.Known(node, inputs, as_they_are, tuple(outputs))
        if node.type in _SIZES and not all(map(is_shared, as_they_are)):
            demands = (p if isinstance(p, Sharded) else replicated(p) for p in as_they_are)
            return plan.Count(node, inputs, tuple(demands), tuple(outputs))
        if not any(map(is_handle, node.dtypes)) and not is_deterministic(node):
            return plan.Broadcast(node, inputs, tuple(map(replicated, as_they_are)), tuple(outputs))
        return self._computed(node, inputs, outputs)

    def _computed(self, node: Node, inputs: tuple[Value, ...], outputs: list[Value]) -> Step:
        if node in self._accumulated and _can_be_added(inputs):
            added = Decision((PARTIAL,) * len(inputs), (PARTIAL,))
            return plan.Compute.by(added, node, inputs, [outputs[0].placed(PARTIAL)])
        entry = entry_of(node.type)
        seen = tuple(self._seen(node, i, v, entry) for i, v in enumerate(inputs))
        num_rows, attributes = self._analysis.num_rows, node.attributes
        operation = Operation(node.type, seen, tuple(outputs), num_rows, attributes)
        if all(is_shared(v.placement) for v in seen):
            if gives_rows(operation):
                rows = self._with_rows(outputs[0].placed(Sharded(0)))
                return plan.Cut(node, inputs, tuple(v.placement for v in seen), (rows,))
            return self._replicated(node, inputs, outputs, False)
        decision = entry.rule(operation) if entry is not None else None
        if decision is None and self._is_region:
            decision = control_flow.fused_batch_norm(operation)
        if decision is None or not _has_known_parts(decision):
            return self._replicated(node, inputs, outputs, bool(operation.with_rows()))
        placed = zip(outputs, decision.outputs, strict=True)
        return plan.Compute.by(
            decision, node, inputs, [self._with_rows(v.placed(p)) for v, p in placed]
        )

    def _with_rows(self, value: Value) -> Value:
        """Return the value with the size of the rows' axis, if the shape function has none."""
        match value.placement:
            case Sharded(axis) if value.shape is not None and value.shape[axis] is None:
                shape = local_shape(value.shape, value.placement, self._analysis.num_rows)
                return dataclasses.replace(value, shape=shape)
        return value

    def _seen(self, node: Node, i: int, value: Value, entry: Entry | None) -> Value:
        """Return what a rule sees of an input: replicated, unless the rule can take it as it is."""
        if is_shared(value.placement):
            return value
        if entry is None or {i, i - len(node.inputs)} & entry.replicated:
            is_taken = False
        elif value.placement == PARTIAL:
            # What several read is reduced once, not each of the values made of it.
            is_read_once = self._readers is None or self._readers[node.inputs[i]] <= 1
            is_taken = is_read_once and (entry.linear is None or i in entry.linear)
        else:
            is_taken = not isinstance(value.placement, Partial | PerReplica)
        return value if is_taken else value.placed(replicated(value.placement))

    def _replicated(
        self, node: Node, inputs: tuple[Value, ...], outputs: list[Value], is_gathered: bool
    ) -> Step:
        demands = tuple(replicated(v.placement) for v in inputs)
        placed = tuple(v.placed(placement_of(v.dtype)) for v in outputs)
        decision = Decision(demands, tuple(v.placement for v in placed))
        entry = entry_of(node.type)
        is_pointwise = (entry is not None and entry.is_pointwise) or is_draw(node.type)
        has_shapes = all(v.shape is not None for v in (*inputs, *placed))
        on_demand = is_pointwise and len(placed) == 1 and has_shapes and not node.controls
        return plan.Compute(node, inputs, demands, placed, decision, on_demand, is_gathered)


def _has_known_parts(decision: Decision) -> bool:
    """Return whether no placement has as many parts as the batch has rows."""
    placements = (*decision.inputs, *decision.outputs)
    return not any(
        isinstance(p, Sharded) and any(map(is_symbolic, (p.outer, p.inner))) for p in placements
    )


def describe(value: Value) -> str:
    """Return a value's placement, dtype and shape for messages."""
    shape = (None,) if value.shape is None else value.shape
    sizes = ", ".join("?" if size is None else shown(size) for size in shape)
    return f"{value.placement} {value.dtype.name}[{sizes}]"


def _of_partial_sum(node: Node, inputs: tuple[Value, ...]) -> Step:
    """Return the step of a variable that holds a partial sum in each process, and goes on to."""
    if node.type == "ReadVariableOp":
        read = Value(PARTIAL, tuple(node.shapes[0].as_list()), node.dtypes[0])
        return plan.Accumulated(node, inputs, (PARTIAL_HANDLE,), (read,))
    if node.type in ("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"):
        return plan.Accumulated(node, inputs, (PARTIAL_HANDLE, PARTIAL), ())
    raise ValueError("A variable of partial sums can only be read, assigned and added to.")


def _picks_all(node: Node, inputs: Sequence[Value]) -> bool:
    """Return whether an operation picks all rows of a value in their order: loops over rows do."""
    if node.type != "GatherV2" or inputs[0].shape is None or node.attributes["batch_dims"]:
        return False
    picked, axis = inputs[1].constant, inputs[2].constant
    if picked is None or axis is None or picked.ndim != 1 or picked.size == 0:
        return False
    return inputs[0].shape[int(axis)] == picked.size and np.array_equal(
        picked, np.arange(picked.size)
    )


def _check(node: Node, inputs: tuple[Value, ...]) -> Step:
    """Return the step of an assertion: it holds for the batch if it holds in every replica."""

    def is_read_whole(value: Value) -> bool:
        is_condition = value is inputs[0] and value.placement == Partial("and")
        return isinstance(value.placement, Partial | PerReplica) and not is_condition

    demands = tuple(REPLICATED if is_read_whole(v) else v.placement for v in inputs)
    return plan.Check(node, inputs, demands, ())


def _accumulated(flat: FlatGraph, handles: set[Node]) -> frozenset[Node]:
    """Return additions to variables of partial sums, and of what is only added to these.

    What all replicas have alike, such as the gradient of a penalty, counts as that of the first
    there, so that nothing is exchanged before the total is.
    """
    if not handles:  # of most steps, and of all bodies in them
        return frozenset()
    read_by_others = {node for node, _ in flat.outputs}
    found: set[Node] = set()
    for node in reversed(flat.nodes):
        is_sum = node.type in ADDITIONS | ALIASES and node not in read_by_others
        if is_sum or (node.type in ADDITIONS and _reads(node, handles)):
            found.add(node)
        elif not node.inputs or node.inputs[0][0] not in handles:
            read_by_others.update(source for source, _ in node.inputs)
    return frozenset(node for node in found if node.type in ADDITIONS)


def _reads(node: Node, handles: set[Node]) -> bool:
    """Return whether an operation is given the value of one of the variables."""
    sources = [past_aliases(edge)[0] for edge in node.inputs]
    return any(s.type == "ReadVariableOp" and s.inputs[0][0] in handles for s in sources)


def _can_be_added(values: Sequence[Value]) -> bool:
    """Return whether values of one shape are totals, or totals and what all replicas have alike."""
    placements = {v.placement for v in values}
    return PARTIAL in placements <= {PARTIAL, REPLICATED} and len({v.shape for v in values}) == 1


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
