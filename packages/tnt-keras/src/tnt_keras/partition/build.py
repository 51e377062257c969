"""From a traced step to the function of one process: place all values, then make operations."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tnt_keras.partition.across_ranks import AcrossRanks
from tnt_keras.partition.analysis import Analysis, placement_of
from tnt_keras.partition.clusters import NotedExchange
from tnt_keras.partition.compiled_graph import compiled
from tnt_keras.partition.emitter import Emitter
from tnt_keras.partition.explain import Explanation, explain
from tnt_keras.partition.global_shapes import GlobalShapes
from tnt_keras.partition.graph import Decide, Edge, FlatGraph, Node, past_aliases
from tnt_keras.partition.lane_order import LaneOrder
from tnt_keras.partition.operations import uncollected
from tnt_keras.partition.plan import Body
from tnt_keras.partition.random_ops import is_seeded, own_draws
from tnt_keras.partition.reshard import BatchSharding, Exchange, NoExchange, Replicas
from tnt_keras.partition.schedule import Schedule, arguments_of, run_in_order
from tnt_keras.partition.traced import TracedStep
from tnt_keras.partition.value import (
    ANY_ROWS,
    PARTIAL,
    PARTIAL_HANDLE,
    REPLICATED,
    Placement,
    Shape,
    Value,
    local_shape,
    replicated,
    shape_of,
)
from tnt_keras.process.fences import lane_input

# Operations that give a multiple of one operand, a single number, if the other is known.
_MULTIPLES: dict[str, Callable[[tf.Tensor, Any], tf.Tensor]] = {
    "DivNoNan": tf.math.divide_no_nan,
    "Mul": tf.multiply,
    "RealDiv": tf.divide,
    "Sum": tf.reduce_sum,
}


@dataclasses.dataclass(frozen=True, slots=True)
class Input:
    """What a step is called with.

    `batch_shape` is that of a batch that could come, if `shape` holds None: sizes that are equal in
    it are taken to be equal in every step, wherever one operation combines them.
    """

    shape: Shape  # for the whole batch; None: may vary between steps
    placement: Placement  # `Sharded(0)` or `REPLICATED`
    batch_shape: tuple[int, ...] | None = None
    elements: tuple[int | None, ...] | None = None  # that never change, of integers


class PartitionedStep:
    """A step on the rows of one process. Calls are collective if several processes have replicas.

    `function` takes the tensors of this process as a flat list, with one tensor per replica for an
    input with rows, and returns those of the whole results as a flat list.
    """

    def __init__(self, traced: TracedStep, plan: Body) -> None:
        self._traced = traced
        self.kept: list[Any] = []  # alive as long as the step: functions that its loops call
        self.plan = plan
        self.partial_sums: list[Edge | None] = []  # in the traced graph, see `with_partial_sums`
        self.own_draws: frozenset[Node] = frozenset()  # of other rows than those of the serial run
        self.explanation: Explanation
        self.across_ranks = AcrossRanks()
        self.num_clusters = 0  # functions that XLA compiles
        self.function: Any = None
        self.seconds = 0.0  # processor time of building

    def __call__(self, *tensors: tf.Tensor) -> Any:
        """Run the step, and return the whole results in the structure of the traced function."""
        return self.with_partial_sums(*tensors)[0]

    def with_partial_sums(self, *tensors: tf.Tensor) -> tuple[Any, list[tf.Tensor | None]]:
        """Run the step like a call, and return what this process has added to variables as well.

        For a total this is the partial sum of the process, for what all processes add alike the
        share `k / N`, by rows; None for a variable to which the step does not add exactly once.
        """
        results = self.function(*tensors)
        flat = iter(results if isinstance(results, list | tuple) else [results])
        structure = self._traced.structured_outputs
        places = tf.nest.flatten(structure, expand_composites=True)
        filled = [next(flat) if tf.is_tensor(place) else place for place in places]
        partial_sums = [None if edge is None else next(flat) for edge in self.partial_sums]
        return tf.nest.pack_sequence_as(structure, filled, expand_composites=True), partial_sums


@uncollected()
def build(
    traced: TracedStep,
    inputs: Sequence[Input],
    replicas: Replicas,
    num_rows: int | None,
    make_exchange: Callable[[Sequence[tf.Tensor]], Exchange],
    *,
    accumulators: Sequence[tf.Variable] = (),
    partial_sums_of: Sequence[tf.Variable] = (),
    decide: Decide | None = None,
    draws_own_rows: bool = False,
    compiles: bool = False,
) -> PartitionedStep:
    """Build the function of one process for one batch shape. Collective if `make_exchange` is.

    The batch has at least as many rows as there are replicas; with `num_rows=None` the function is
    for any number from 2 on: it is called with the number besides, an int64 scalar, and `inputs`
    have None for it. `make_exchange` is called in the graph that is built, with the tensors of this
    process. `accumulators` hold a partial sum in each process, between steps too; `partial_sums_of`
    is for `PartitionedStep.partial_sums`. With `draws_own_rows` each replica draws other rows than
    those of the serial run, where a draw of rows is read as rows alone; several replicas of a
    process must not, since they compute what as many processes would. `compiles` lets XLA compile
    what lies between exchanges, and draw all random numbers, as it does in a serial run. What
    cannot be partitioned is a fault of this package.
    """
    if compiles and (replicas.count > 1 or replicas.are_lanes):
        raise ValueError("XLA rounds several lanes of a process otherwise than single ones.")
    if draws_own_rows and replicas.count > 1:
        raise ValueError("Several replicas of one process draw the rows of the serial run.")
    begin = time.process_time()
    rows, extremes = num_rows or ANY_ROWS, (0, replicas.total - 1)
    replica_rows = sorted({replicas.num_rows(v, rows) for v in extremes} if num_rows else [rows])
    shapes = GlobalShapes()
    analysis = Analysis(rows, replica_rows, shapes, traced.flattened)
    given = _given(traced, inputs, shapes, num_rows)
    arguments = [*given, *_captured(traced, len(inputs), accumulators)]
    flat = traced.flat if decide is None else FlatGraph(traced.graph, decide, is_step=True)
    plan = analysis.body(flat, arguments, is_step=True)
    plan = plan.with_outputs([replicated(p) for p in plan.outputs])
    step = PartitionedStep(traced, plan)
    step.own_draws = own_draws(plan) if draws_own_rows else frozenset()
    step.partial_sums = [_added(traced, plan, variable) for variable in partial_sums_of]
    step.function = _function(
        traced, step, replicas, num_rows, len(inputs), make_exchange, compiles=compiles
    )
    step.seconds = time.process_time() - begin
    return step


def build_without_batch(traced: TracedStep, num_inputs: int) -> Callable[[], None] | None:
    """Build what a step does without a batch, to counters and seeds; None if that is nothing."""
    reduced = traced.flat.without(traced.flat.arguments[:num_inputs])
    if not reduced.nodes:
        return None
    given = [Value(REPLICATED, None, n.dtypes[0]) for n in reduced.arguments[:num_inputs]]
    arguments = [*given, *_captured(traced, num_inputs, ())]
    plan = Analysis(1, [1], GlobalShapes(), traced.flattened).body(reduced, arguments, is_step=True)
    kept: list[Any] = []

    def effects() -> None:
        emitter = Emitter(BatchSharding(Replicas(0, 1, 1), 1), NoExchange(), kept.append)
        tensors = [*[[]] * num_inputs, *_captured_here(traced)]
        run_in_order(emitter, plan, arguments_of(plan, tensors))

    function = tf.function(effects, autograph=False).get_concrete_function()
    function.kept_bodies = kept
    return function


def _given(
    traced: TracedStep, inputs: Sequence[Input], shapes: GlobalShapes, num_rows: int | None
) -> list[Value]:
    values = []
    for place, (given, tensor) in enumerate(zip(inputs, traced.graph.inputs, strict=False)):
        example, shape = None, given.shape
        if num_rows is None:
            shape = local_shape(shape, given.placement, ANY_ROWS)  # of a single replica: the whole
        if shape is not None and None in shape:
            sizes = zip(shape, given.batch_shape or (None,) * len(shape), strict=True)
            example = tuple(
                size if size is not None else other or shapes.new_size((place, axis))
                for axis, (size, other) in enumerate(sizes)
            )
        value = Value(given.placement, shape, tensor.dtype, elements=given.elements)
        values.append(dataclasses.replace(value, example_shape=example))
    return values


def _captured(
    traced: TracedStep, num_inputs: int, accumulators: Sequence[tf.Variable]
) -> list[Value]:
    of_partial_sums = {id(variable.handle) for variable in accumulators}
    return [
        Value(
            PARTIAL_HANDLE if id(captured) in of_partial_sums else placement_of(tensor.dtype),
            shape_of(tensor.shape),
            tensor.dtype,
        )
        for tensor, captured in zip(traced.graph.inputs[num_inputs:], traced.captures, strict=True)
    ]


def _function(
    traced: TracedStep,
    built: PartitionedStep,
    replicas: Replicas,
    num_rows: int | None,
    num_inputs: int,
    make_exchange: Callable[[Sequence[tf.Tensor]], Exchange],
    *,
    compiles: bool,
) -> Any:
    plan = built.plan
    given = plan.arguments[:num_inputs]
    rows = [num_rows and replicas.num_rows(replica, num_rows) for replica in replicas.numbers]
    specs = [tf.TensorSpec(s, v.dtype) for v in given for s in _local_shapes(v, rows)]
    if num_rows is None:
        specs.append(tf.TensorSpec([], tf.int64))
    counters = {node: traced.draw_counter(node) for node in plan.flat.nodes if is_seeded(node)}
    updates = _updates(traced, plan.flat)

    def step(*tensors: tf.Tensor) -> list[tf.Tensor]:
        sharding = BatchSharding(replicas, tensors[-1] if num_rows is None else num_rows)
        if compiles:
            exchange: Exchange = NotedExchange(lambda: make_exchange(tensors), built.across_ranks)
        else:
            exchange = make_exchange(tensors)
        emitter = Emitter(sharding, exchange, built.kept.append, updates, built.own_draws, counters)
        emitter.order, emitter.draws_whole = LaneOrder(replicas.at_once), compiles
        emitter.across_ranks = built.across_ranks
        flat = iter(tensors)
        parts = [[next(flat) for _ in _local_shapes(value, rows)] for value in given]
        if replicas.are_lanes:
            parts = [
                _begun(value, of_lanes, emitter)
                for value, of_lanes in zip(given, parts, strict=True)
            ]
        parts += _captured_here(traced)
        schedule = Schedule(emitter, plan, arguments_of(plan, parts))
        outputs = [t for [t] in schedule.run()]
        built.explanation = explain(plan, emitter.exchanged, schedule.num_levels)
        wanted = [edge for edge in built.partial_sums if edge is not None]
        return [*outputs, *(_partial_sum(emitter, schedule, edge) for edge in wanted)]

    function = tf.function(step, autograph=False).get_concrete_function(*specs)
    if not compiles:
        return function
    built.kept.append(function)
    function, built.num_clusters = compiled(function, built.across_ranks)
    return function


def _begun(value: Value, parts: list[tf.Tensor], emitter: Emitter) -> list[tf.Tensor]:
    """Return the parts of an input with which lanes begin, or what all of them share."""
    if value.placement == REPLICATED:
        return parts
    parts = list(map(lane_input, parts))
    for lane, part in enumerate(parts):
        emitter.order.begins_with(lane, part.op)
    return parts


def _captured_here(traced: TracedStep) -> list[list[Any]]:
    """Return placeholders of outside tensors and resources in the graph that is being built."""
    graph = tf.compat.v1.get_default_graph()
    return [[graph.capture(tensor)] for tensor in traced.captures]


def _local_shapes(value: Value, replica_rows: Sequence[int | None]) -> list[Shape]:
    if value.placement == REPLICATED:
        return [value.shape]
    return [local_shape(value.shape, value.placement, k) for k in replica_rows]


def _added(traced: TracedStep, plan: Body, variable: tf.Variable) -> Edge | None:
    """Return what a step adds to a variable, None unless all it does is to add to it once."""
    captured = traced.captured_by(plan.flat)
    handle = next((node for node, tensor in captured if tensor is variable.handle), None)
    assigned = [n for n in plan.flat.nodes if n.has_effect and (handle, 0) in n.inputs[:1]]
    if handle is None or len(assigned) != 1:
        return None
    [node] = assigned
    if node.type == "AssignAddVariableOp":
        return node.inputs[1]
    total = past_aliases(node.inputs[1])[0] if node.type == "AssignVariableOp" else node
    if total.type != "AddV2":
        return None
    sources = ((edge, past_aliases(edge)[0]) for edge in total.inputs)
    partial_sums = [
        edge
        for edge, source in sources
        if source.type != "ReadVariableOp" or source.inputs != [(handle, 0)]
    ]
    return partial_sums[0] if len(partial_sums) == 1 else None


def _partial_sum(emitter: Emitter, schedule: Schedule, edge: Edge) -> tf.Tensor:
    """Make this process' partial sum of a value, also of a multiple of a total."""
    node, _ = edge = past_aliases(edge)
    emitted = schedule.emitted[edge]
    multiply = _MULTIPLES.get(node.type)
    is_number = emitted.value.num_elements == 1
    if emitted.value.placement != PARTIAL and multiply is not None and is_number:
        for i in (0, 1):
            factor = schedule.emitted[node.inputs[1 - i]]
            if factor.value.is_known and (i == 0 or node.type == "Mul"):
                number = _partial_sum(emitter, schedule, node.inputs[i])
                return multiply(number, emitter.reshard(factor, REPLICATED)[0])
    return emitter.partial_sum(emitted)


def _updates(traced: TracedStep, flat: FlatGraph) -> frozenset[Node]:
    """Return the nodes from which trainable variables are updated, by way of others or directly.

    Optimizers assign moments to variables of their own and read them again.
    """
    trained = {id(v.handle) for v in traced.variables if v.trainable}
    captured = traced.captured_by(flat)
    assignments: dict[Node, list[Node]] = {handle: [] for handle, _ in captured}
    for node in flat.nodes:
        if node.has_effect and node.inputs and node.inputs[0][0] in assignments:
            assignments[node.inputs[0][0]].append(node)
    todo = [handle for handle, tensor in captured if id(tensor) in trained]
    found: set[Node] = set()
    while todo:
        node = todo.pop()
        if node not in found:
            found.add(node)
            todo += assignments.get(node, [source for source, _ in node.inputs])
    return frozenset(found - assignments.keys())
