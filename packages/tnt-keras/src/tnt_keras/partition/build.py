"""From a traced step to the function of one process: place, then make operations."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tnt_keras.partition.analysis import Analysis
from tnt_keras.partition.bodies import run_in_order
from tnt_keras.partition.emission import Emission, Emitted
from tnt_keras.partition.global_shapes import GlobalShapes
from tnt_keras.partition.lanes import Lanes
from tnt_keras.partition.placement import ADDENDS, HANDLE, REPLICATED, Handle, ListOf, Placement, Shape, local_shape
from tnt_keras.partition.plan import Body
from tnt_keras.partition.requests import Exchange, NoExchange
from tnt_keras.partition.reshard import Layout
from tnt_keras.partition.schedule import Schedule
from tnt_keras.partition.traced import Decide, FlatGraph, Node, TracedStep
from tnt_keras.partition.value import Value


@dataclasses.dataclass(frozen=True, slots=True)
class Input:
    """What a step is called with.

    Attributes:
        shape: Of the whole batch; None for a dimension that may be another one in each step.
        placement: `Rows(0)` for what has the batch's rows, `REPLICATED` for what all processes get.
    """

    shape: Shape
    placement: Placement


class PartitionedStep:
    """A step on the rows of one process. Calling it is collective where lanes are several processes'.

    Attributes:
        function: Takes this process' tensors, flat, a tensor for each lane of what has rows; returns
            the tensors of the whole results, flat.
        plan: What is done for each operation.
        seconds: That building took, of the processor.
    """

    def __init__(self, traced: TracedStep, plan: Body) -> None:
        self._traced = traced
        self._kept: list[Any] = []
        self.plan = plan
        self.function: Any = None
        self.seconds = 0.0

    def keep(self, thing: Any) -> None:
        """Let something live as long as the step: functions that its loops and branches call."""
        self._kept.append(thing)

    def __call__(self, *tensors: tf.Tensor) -> Any:
        """Run the step, and return what the traced function returned, whole and structured as there."""
        results = self.function(*tensors)
        flat = iter(results if isinstance(results, list | tuple) else [results])
        structure = self._traced.structured_outputs
        places = tf.nest.flatten(structure, expand_composites=True)
        filled = [next(flat) if tf.is_tensor(place) else place for place in places]
        return tf.nest.pack_sequence_as(structure, filled, expand_composites=True)


def build(
    traced: TracedStep,
    inputs: Sequence[Input],
    lanes: Lanes,
    num_rows: int,
    make_exchange: Callable[[], Exchange],
    *,
    accumulators: Sequence[tf.Variable] = (),
    addends_of: Sequence[tf.Variable] = (),
    decide: Decide | None = None,
) -> PartitionedStep:
    """Build the function of one process for one shape of the batch. Collective if exchanges are.

    Args:
        traced: The step.
        inputs: One for each tensor that it was traced with; composite ones have several.
        lanes: Those of this process.
        num_rows: Rows of the batch, at least as many as lanes.
        make_exchange: Called in the graph that is built; makes the exchanges with other processes.
        accumulators: Variables that hold an addend in each process, between steps too.
        addends_of: Variables that the step adds to, for `PartitionedStep.addends`.
        decide: As for `FlatGraph`.

    Raises:
        PartitionError: If the step cannot be cut; that is a fault of this package.
    """
    begin = time.process_time()
    layout = Layout(lanes, num_rows)
    lane_rows = sorted({lanes.num_rows(v, num_rows) for v in (0, lanes.total - 1)})
    analysis = Analysis(num_rows, lane_rows, GlobalShapes(), traced.bodies)
    arguments = [*_given(traced, inputs), *_captured(traced, len(inputs), accumulators)]
    flat = traced.flat if decide is None else FlatGraph(traced.graph, decide)
    plan = analysis.body(flat, arguments, is_step=True)
    plan = plan.bringing([_whole(p) for p in plan.outputs])
    step = PartitionedStep(traced, plan)
    step.function = _function(traced, plan, layout, len(inputs), make_exchange, step.keep)
    step.seconds = time.process_time() - begin
    return step


def build_without_batch(traced: TracedStep, num_inputs: int) -> Callable[[], None] | None:
    """Build what a step does that needs no batch: counters and seeds that advance.

    Args:
        traced: The step.
        num_inputs: How many tensors of a batch it takes.

    Returns:
        A function of no arguments, local; None if there is nothing to do.
    """
    reduced = traced.flat.without(traced.flat.arguments[:num_inputs])
    if not reduced.nodes:
        return None
    arguments = [
        *(Value(REPLICATED, None, n.dtypes[0]) for n in reduced.arguments[:num_inputs]),
        *_captured(traced, num_inputs, ()),
    ]
    plan = Analysis(1, [1], GlobalShapes(), traced.bodies).body(reduced, arguments, is_step=True)
    kept: list[Any] = []

    def effects() -> None:
        emission = Emission(Layout(Lanes(0, 1, 1), 1), NoExchange(), frozenset(), kept.append)
        emitted = [Emitted(value, [], node) for value, node in zip(plan.arguments, reduced.arguments, strict=True)]
        for e, tensor in zip(emitted[num_inputs:], traced.captures, strict=True):
            e.tensors[e.value.placement] = [_captured_here(tensor)]
        run_in_order(emission, plan, emitted)

    function = tf.function(effects, autograph=False).get_concrete_function()
    function.kept_bodies = kept
    return function


def _given(traced: TracedStep, inputs: Sequence[Input]) -> list[Value]:
    tensors = traced.graph.inputs[: len(inputs)]
    return [Value(i.placement, i.shape, t.dtype) for i, t in zip(inputs, tensors, strict=True)]


def _captured(
    traced: TracedStep, num_inputs: int, accumulators: Sequence[tf.Variable]
) -> list[Value]:
    of_addends = {id(variable.handle) for variable in accumulators}
    values = []
    for tensor, captured in zip(traced.graph.inputs[num_inputs:], traced.captures, strict=True):
        shape = None if tensor.shape.rank is None else tuple(tensor.shape.as_list())
        placement: Placement = REPLICATED
        if tensor.dtype == tf.resource:
            placement = ADDENDS if id(captured) in of_addends else HANDLE
        elif tensor.dtype == tf.variant:
            placement = ListOf(REPLICATED)
        values.append(Value(placement, shape, tensor.dtype))
    return values


def _function(
    traced: TracedStep,
    plan: Body,
    layout: Layout,
    num_inputs: int,
    make_exchange: Callable[[], Exchange],
    keep: Callable[[Any], None],
) -> Any:
    given = plan.arguments[:num_inputs]
    specs = [
        tf.TensorSpec(shape, value.dtype)
        for value in given
        for shape in _local_shapes(value, layout)
    ]

    def step(*tensors: tf.Tensor) -> list[tf.Tensor]:
        emission = Emission(layout, make_exchange(), _updates(traced, plan.flat), keep)
        flat = iter(tensors)
        arguments = [
            Emitted(value, [next(flat) for _ in _local_shapes(value, layout)], node)
            for value, node in zip(given, plan.flat.arguments, strict=False)
        ]
        captured = zip(
            plan.arguments[num_inputs:], traced.captures, plan.flat.arguments[num_inputs:], strict=True
        )
        arguments += [Emitted(value, [_captured_here(tensor)], node) for value, tensor, node in captured]
        outputs = Schedule(emission, plan, arguments).run()
        return [t for [t] in outputs]

    return tf.function(step, autograph=False).get_concrete_function(*specs)


def _captured_here(tensor: Any) -> Any:
    """What stands in the graph that is being built for a tensor or resource outside of it."""
    return tf.compat.v1.get_default_graph().capture(tensor)


def _local_shapes(value: Value, layout: Layout) -> list[Shape]:
    if value.placement == REPLICATED:
        return [value.shape]
    return [local_shape(value.shape, value.placement, k) for k in layout.lane_rows]


def _whole(placement: Placement) -> Placement:
    return placement if isinstance(placement, Handle) else REPLICATED


def _updates(traced: TracedStep, flat: FlatGraph) -> frozenset[Node]:
    """Return the nodes from which what trainable variables are assigned is computed."""
    trained = {id(v.handle) for v in traced.variables if v.trainable}
    captured = flat.arguments[len(flat.arguments) - len(traced.captures) :]
    handles = {n for n, t in zip(captured, traced.captures, strict=True) if id(t) in trained}
    todo = [n for n in flat.nodes if n.has_effect and n.inputs and n.inputs[0][0] in handles]
    found: set[Node] = set()
    while todo:
        node = todo.pop()
        if node not in found:
            found.add(node)
            todo += [source for source, _ in node.inputs]
    return frozenset(found)
