"""From a traced step to the function of one process: place, then make operations."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tnt_keras.partition.analysis import Analysis
from tnt_keras.partition.emission import Emission, Emitted
from tnt_keras.partition.global_shapes import GlobalShapes
from tnt_keras.partition.lanes import Lanes
from tnt_keras.partition.placement import HANDLE, REPLICATED, ListOf, Placement, Shape, local_shape
from tnt_keras.partition.plan import Body
from tnt_keras.partition.requests import Exchange
from tnt_keras.partition.reshard import Layout
from tnt_keras.partition.schedule import Schedule
from tnt_keras.partition.traced import FlatGraph, Node, TracedStep
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

    def __init__(self, traced: TracedStep, plan: Body, function: Any, seconds: float) -> None:
        self._traced = traced
        self.plan = plan
        self.function = function
        self.seconds = seconds

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
) -> PartitionedStep:
    """Build the function of one process for one shape of the batch. Collective if exchanges are.

    Args:
        traced: The step.
        inputs: One for each tensor that it was traced with; composite ones have several.
        lanes: Those of this process.
        num_rows: Rows of the batch, at least as many as lanes.
        make_exchange: Called in the graph that is built; makes the exchanges with other processes.

    Raises:
        PartitionError: If the step cannot be cut; that is a fault of this package.
    """
    begin = time.process_time()
    layout = Layout(lanes, num_rows)
    lane_rows = sorted({lanes.num_rows(v, num_rows) for v in (0, lanes.total - 1)})
    analysis = Analysis(num_rows, lane_rows, GlobalShapes(), traced.bodies)
    arguments = [*_given(traced, inputs), *_captured(traced, len(inputs))]
    plan = analysis.body(traced.flat, arguments, is_step=True)
    plan = plan.bringing([_whole(p) for p in plan.outputs])
    kept: list[Any] = []
    function = _function(traced, plan, layout, len(inputs), make_exchange, kept.append)
    function.kept_bodies = kept  # functions that loops and branches call
    return PartitionedStep(traced, plan, function, time.process_time() - begin)


def _given(traced: TracedStep, inputs: Sequence[Input]) -> list[Value]:
    tensors = traced.graph.inputs[: len(inputs)]
    return [Value(i.placement, i.shape, t.dtype) for i, t in zip(inputs, tensors, strict=True)]


def _captured(traced: TracedStep, num_inputs: int) -> list[Value]:
    values = []
    for tensor in traced.graph.inputs[num_inputs:]:
        shape = None if tensor.shape.rank is None else tuple(tensor.shape.as_list())
        placement: Placement = REPLICATED
        if tensor.dtype == tf.resource:
            placement = HANDLE
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
        emission = Emission(layout, make_exchange(), updates(plan.flat), keep)
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
        return [t if t.dtype == tf.resource else tf.identity(t) for [t] in outputs]

    return tf.function(step, autograph=False).get_concrete_function(*specs)


def _captured_here(tensor: Any) -> Any:
    """What stands in the graph that is being built for a tensor or resource outside of it."""
    return tf.compat.v1.get_default_graph().capture(tensor)


def _local_shapes(value: Value, layout: Layout) -> list[Shape]:
    if value.placement == REPLICATED:
        return [value.shape]
    return [local_shape(value.shape, value.placement, k) for k in layout.lane_rows]


def _whole(placement: Placement) -> Placement:
    return placement if placement == HANDLE else REPLICATED


def updates(flat: FlatGraph) -> frozenset[Node]:
    """Return the nodes from which an update of an optimizer is computed."""
    return frozenset()
