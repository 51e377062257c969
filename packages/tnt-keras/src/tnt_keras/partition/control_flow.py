"""Loops, branches and local regions: the placements of the values in them.

A local region is a function that each replica applies to its own rows, as if they were the whole
batch. An example is batch normalisation with the statistics of a rank's rows. It is a call of a
function that `local_region` made, or of its gradient. Outputs with rows stay the replica's rows of
the batch. Every other output is the replica's own, and is read as the mean over replicas, weighted
by rows (`k / N`). The derivative that comes back through this mean is weighted in the same way.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from tnt_keras.partition.global_shapes import in_common
from tnt_keras.partition.graph import Edge, FlatGraph, Node, function_of, gradient_of, past_aliases
from tnt_keras.partition.lists import fitting, joined
from tnt_keras.partition.plan import Branch, Loop, Region, Step
from tnt_keras.partition.rules.registry import Decision, Operation
from tnt_keras.partition.value import (
    PARTIAL,
    PER_REPLICA,
    REPLICATED,
    Element,
    Handle,
    Partial,
    PerReplica,
    Placement,
    Sharded,
    Value,
    join,
    local_shape,
    static,
)

if TYPE_CHECKING:
    from tnt_keras.partition.analysis import Analysis

_LOOPS = {"While", "StatelessWhile"}
_BRANCHES = {"If": ("then_branch", "else_branch"), "Case": ("branches",)}
_BRANCHES |= {f"Stateless{kind}": names for kind, names in _BRANCHES.items()}


def step(analysis: Analysis, node: Node, inputs: tuple[Value, ...]) -> Step | None:
    """Return what replicas do for a loop, branch or local region, None for any other node."""
    if node.body is not None:
        return _region(analysis, node, inputs)
    if node.type in _LOOPS:
        return _loop(analysis, node, inputs)
    return _branch(analysis, node, inputs) if node.type in _BRANCHES else None


def _loop(analysis: Analysis, node: Node, inputs: tuple[Value, ...]) -> Loop:
    """Find a fixed point: placements of the loop's variables that an iteration preserves.

    A round can change a variable only from "the same in all replicas" to rows or partial sums, and
    from there to replicated. What is known of its shape and value can only shrink. So there is a
    last round.
    """
    [body_graph], [condition_graph] = (_graphs(analysis, node, name) for name in ("body", "cond"))
    results = map(past_aliases, body_graph.outputs)
    variables = [
        value if edge == (argument, 0) else _invariant(value)
        for value, edge, argument in zip(inputs, results, body_graph.arguments, strict=True)
    ]
    for i in _accumulators(body_graph, condition_graph):
        if variables[i].placement == REPLICATED and variables[i].dtype.is_floating:
            variables[i] = variables[i].placed(PARTIAL)
    moves = [0] * len(variables)
    for _ in range(4 * len(variables) + 8):
        body = analysis.body(body_graph, variables)
        after = [
            _next(v, result, analysis.num_rows)
            for v, result in zip(variables, body.results, strict=True)
        ]
        for i, (old, new) in enumerate(zip(variables, after, strict=True)):
            moves[i] += old.placement != new.placement
            if moves[i] > 3:  # it goes round in circles
                after[i] = new.placed(REPLICATED)
        if [*map(_known_of, variables)] == [*map(_known_of, after)]:
            break
        variables = after
    else:
        raise AssertionError("The placements of a loop's variables do not converge.")
    placements = tuple(v.placement for v in variables)
    condition = analysis.body(condition_graph, variables).with_outputs([REPLICATED])
    bodies = body.with_outputs(placements), condition
    return Loop(node, inputs, placements, tuple(variables), bodies=bodies)


def _next(variable: Value, result: Value, num_rows: int) -> Value:
    """Return what is known of a loop's variable both before and after an iteration."""
    shape, before = in_common(variable.shape, result.shape), variable.placement
    if isinstance(before, Handle):
        return variable
    # Partial sums stay what they are only if the iteration leaves them so.
    is_totalled = before == PARTIAL and result.placement != PARTIAL
    placement = join(REPLICATED if is_totalled else before, result.placement)
    counted = ("example_shape", "length", "example_length")
    other = {n: None for n in counted if getattr(variable, n) != getattr(result, n)}
    element = joined(variable.element, result.element)
    following = dataclasses.replace(
        variable, placement=placement, shape=shape, element=element, **other
    )
    return fitting(following if result is variable else _invariant(following), num_rows)


def _known_of(known: Value | Element) -> list[Any]:
    """Return what is known of a value, to be compared; of arrays, that there is one."""
    fields = (getattr(known, field.name) for field in dataclasses.fields(known))
    return [
        _known_of(x) if isinstance(x, Element) else type(x) if isinstance(x, np.ndarray) else x
        for x in fields
    ]


def _invariant(value: Value) -> Value:
    """Return what is known of a variable that an iteration changes, in every iteration."""
    if isinstance(value.placement, Handle):
        return value
    return dataclasses.replace(value, constant=None, elements=None, example=None)


def _accumulators(body: FlatGraph, condition: FlatGraph) -> set[int]:
    """Return the variables that a loop only adds to: each replica can sum up its own."""
    readers: Counter[Edge] = Counter()
    for node in (*body.nodes, *condition.nodes):
        if node.type != "Identity":
            readers.update(set(map(past_aliases, node.inputs)))
    found = set()
    for i, (node, _) in enumerate(map(past_aliases, body.outputs)):
        argument = body.arguments[i], 0
        adds = node.type in ("AddV2", "AddN") and argument in map(past_aliases, node.inputs)
        if adds and readers[argument] == 1 and (condition.arguments[i], 0) not in readers:
            found.add(i)
    return found


def _branch(analysis: Analysis, node: Node, inputs: tuple[Value, ...]) -> Branch:
    arguments = inputs[1:]
    graphs = [g for name in _BRANCHES[node.type] for g in _graphs(analysis, node, name)]
    # Shapes may be wrong in a branch that these sizes never take.
    bodies = [analysis.body(g, arguments) for g in _taken(graphs, inputs[0], node.type)]
    results = zip(*(body.results for body in bodies), strict=True)
    outputs = tuple(_of_any(values, analysis.num_rows) for values in results)
    demands = (REPLICATED, *(v.placement for v in arguments))
    placed = tuple(body.with_outputs([v.placement for v in outputs]) for body in bodies)
    return Branch(node, inputs, demands, outputs, bodies=placed)


def _taken(graphs: list[FlatGraph], chosen: Value, operation_type: str) -> list[FlatGraph]:
    """Return the branches that may be taken: one if the choice is known."""
    if chosen.constant is None or chosen.shape != ():
        return graphs
    if operation_type.endswith("Case"):
        place = int(chosen.constant)
        return graphs[place:][:1] if 0 <= place < len(graphs) else graphs[-1:]
    return graphs if chosen.dtype == tf.string else [graphs[0 if chosen.constant else 1]]


def _of_any(results: Sequence[Value], num_rows: int) -> Value:
    """Return what is known of an output whichever branch was taken."""
    shape = functools.reduce(in_common, (v.shape for v in results))
    placement = functools.reduce(join, (v.placement for v in results))
    element = functools.reduce(joined, (v.element for v in results))
    return fitting(Value(placement, shape, results[0].dtype, element=element), num_rows)


def _graphs(analysis: Analysis, node: Node, attribute: str) -> list[FlatGraph]:
    functions = node.attributes[attribute]
    functions = functions if isinstance(functions, list) else [functions]
    return [analysis.flat(function_of(node, f.name).graph) for f in functions]


def _region(analysis: Analysis, node: Node, inputs: tuple[Value, ...]) -> Region:
    demands, weighted = _demands(analysis, node, inputs)
    resharded = [v.placed(p) for v, p in zip(inputs, demands, strict=True)]
    flat = analysis.flat(node.body)
    whole = [v.placed(REPLICATED) if v.placement == PER_REPLICA else v for v in resharded]
    results = analysis.body(flat, whole, is_region=True).results
    bodies = tuple(
        analysis.of_replica(k).body(flat, [_of_replica(v, k) for v in resharded])
        for k in analysis.replica_rows
    )
    placement = PARTIAL if gradient_of(node) else PER_REPLICA
    varying = _varying(flat, [isinstance(p, Sharded | PerReplica) for p in demands])
    outputs = tuple(
        v
        if isinstance(v.placement, Sharded | Handle)
        else Value(placement if edge in varying else REPLICATED, v.shape, v.dtype)
        for v, edge in zip(results, flat.outputs, strict=True)
    )
    analysis.placements_of_regions[node] = [v.placement for v in outputs]
    return Region(node, inputs, demands, outputs, analysis.replica_rows, weighted, bodies=bodies)


def fused_batch_norm(operation: Operation) -> Decision | None:
    """Return how a region normalises a batch, fused: each replica has statistics."""
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
    called = {n.attributes["f"].name: n for n, _ in reversed(node.inputs) if n.body is not None}
    forward = called.get(name)
    if forward is None:
        return tuple(demands), frozenset()
    num_given = len(node.body.inputs) - len(node.body.captures)
    returned = [i for i, dtype in enumerate(forward.dtypes) if dtype.is_floating]
    weighted = set()
    for i, output in enumerate(returned[:num_given]):
        placement = analysis.placements_of_regions[forward][output]
        if placement == PER_REPLICA:
            weighted.add(i)
        demands[i] = placement if isinstance(placement, Sharded) else REPLICATED
    return tuple(demands), frozenset(weighted)


def _of_replica(value: Value, num_rows: int) -> Value:
    # What depends on the rows of the batch does not follow from those of the replica.
    shape = local_shape(static(value.shape), value.placement, num_rows)
    placement = REPLICATED if isinstance(value.placement, Sharded | PerReplica) else value.placement
    if isinstance(value.placement, Sharded):  # a constant holds the rows of all replicas
        return Value(placement, shape, value.dtype, element=value.element)
    elements = static(value.elements)
    return Value(placement, shape, value.dtype, value.constant, elements, value.element)


def _varying(flat: FlatGraph, arguments: Sequence[bool]) -> set[Edge]:
    """Return the values that depend on arguments that differ between replicas."""
    varying: set[Edge] = {
        (node, 0) for node, varies in zip(flat.arguments, arguments, strict=True) if varies
    }
    for node in flat.nodes:
        if any(edge in varying for edge in node.inputs):
            varying.update((node, i) for i in range(len(node.dtypes)))
    return varying
