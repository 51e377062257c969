"""A step as TensorFlow traces it, and what all ranks must have in common of it."""

from __future__ import annotations

import functools
import hashlib
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from tnt_keras.keras_hooks.private_tensorflow import made_outside
from tnt_keras.partition.graph import FlatGraph, Node, function_of
from tnt_keras.partition.operations import functions_in, is_handle, uncollected

OwnVariables: TypeAlias = Callable[[], Sequence[tf.Variable]]
"""Tells which variables there are that change nothing of how Python goes on once they are made."""

_NAMES = {"container", "seed", "seed2", "shared_name", "token"}


class TracedStep:
    """A function as TensorFlow traced it, for any batch. Local."""

    def __init__(
        self,
        function: Callable[..., Any],
        specs: Sequence[Any],
        made_at_once: OwnVariables,
        *,
        compiles: bool = False,
    ) -> None:
        begin = time.process_time()
        with uncollected():
            traced = _trace_with_variables(function, specs, made_at_once, compiles)
        self.seconds = time.process_time() - begin  # processor time of tracing
        self.concrete_function = traced  # owns the graph, and what that has captured
        self.graph = traced.graph
        places = {id(t): i for i, t in enumerate(traced.captured_inputs)}
        self.variables = tuple(
            sorted(traced.graph.variables, key=lambda v: places.get(id(v.handle), -1))
        )
        self.captures = list(traced.captured_inputs)  # from outside: its last arguments
        self.structured_outputs = traced.graph.structured_outputs
        self.flat = FlatGraph(traced.graph, is_step=True)
        self._bodies: dict[Any, FlatGraph] = {}
        self._draw_counters: dict[str, tf.Variable] = {}

    def captured_by(self, flat: FlatGraph) -> list[tuple[Node, Any]]:
        """Return a graph's arguments that are captured from outside, and what they are there."""
        first = len(flat.arguments) - len(self.captures)
        return list(zip(flat.arguments[first:], self.captures, strict=True))

    def draw_counter(self, node: Node) -> tf.Variable:
        """Return what all graphs of the step share of the state of a draw, see `seeded_draws`."""
        if node.name not in self._draw_counters:
            self._draw_counters[node.name] = tf.Variable(0, dtype=tf.int64, trainable=False)
        return self._draw_counters[node.name]

    def description(self) -> list[str]:
        """Return a line for each operation, with exactly what all ranks must have in common.

        These are types, attributes, shapes, edges and constants, by position and without names.
        Seeds may differ, since all ranks take those of rank 0.
        """
        return [*map(_constant_capture, self.captures), *self._lines(self.flat)]

    def flattened(self, graph: Any) -> FlatGraph:
        """Return the body of a loop, branch or region with all calls inlined."""
        if graph not in self._bodies:
            self._bodies[graph] = FlatGraph(graph)
        return self._bodies[graph]

    def _lines(self, flat: FlatGraph) -> list[str]:
        """Return the description of a graph; that of a function it calls is part of a line."""
        places: dict[Node, int] = {n: -1 - i for i, n in enumerate(flat.arguments)}
        lines = [f"{n.dtypes[0].name} {n.shapes[0]}" for n in flat.arguments]
        for i, node in enumerate(flat.nodes):
            places[node] = i
            inputs = [(places.get(n), output) for n, output in node.inputs]
            controls = sorted(places.get(n, -1) for n in node.controls)
            attributes = []
            for name, value in sorted(node.attributes.of_operation.items()):
                bodies = [function_of(node, f.name).graph for f in functions_in(value)]
                described = [self._lines(self.flattened(body)) for body in bodies] or str(value)
                attributes += [(name, described)] if name not in _NAMES else []
            lines.append(f"{node.type} {inputs} {controls} {attributes}")
        return [*lines, str([(places[n], output) for n, output in flat.outputs])]


def trace(
    function: Callable[..., Any],
    specs: Sequence[Any],
    made_at_once: OwnVariables = tuple,
    *,
    compiles: bool = False,
) -> TracedStep:
    """Trace a function of tensors as `tf.function` does, without AutoGraph. Local.

    `compiles`: as `tf.function` does for XLA, which must know how often loops run at most.

    The function may make variables. `tf.function` makes them in the graph, moves their first values
    out of it, and traces again, in which Python may go another way: Keras' loss scale is a constant
    until the optimizer is built. A first value that is a function, as those of Keras are, can be
    had outside of the graph at once. The second trace is left out if only such variables were made,
    and all of them are `made_at_once`. A function that makes variables in its second trace, too, is
    a `ValueError`.
    """
    return TracedStep(function, specs, made_at_once, compiles=compiles)


def _trace_with_variables(
    function: Callable[..., Any], specs: Sequence[Any], made_at_once: OwnVariables, compiles: bool
) -> Any:
    """Trace a function in one trace if possible, see `trace`."""
    traces = 0
    made: list[tf.Variable] = []

    def make(make_next: Callable[..., Any], **options: Any) -> tf.Variable:
        if traces > 1:
            raise ValueError(
                f"A step creates the variable {options['name']!r} each time it is traced. Create "
                "it before, or only the first time, and keep it, for example in an attribute of "
                "the model."
            )
        if not callable(options["initial_value"]):
            return make_next(**options)
        made.append(made_outside(**options))
        return made[-1]

    def traced(*arguments: Any) -> Any:
        nonlocal traces
        traces += 1
        with tf.variable_creator_scope(make):
            return function(*arguments)

    make_graph = functools.partial(tf.function, autograph=False, jit_compile=compiles or None)
    first = make_graph(traced).get_concrete_function(*specs)
    if traces > 1 or not made:
        return first
    known = {id(variable) for variable in made_at_once()}
    if all(id(variable) in known for variable in made):
        return first
    return make_graph(traced).get_concrete_function(*specs)


def _constant_capture(tensor: Any) -> str:
    """Return a hash of what a captured tensor holds, or the dtype of a resource."""
    if is_handle(tensor.dtype) or not hasattr(tensor, "numpy"):
        return tensor.dtype.name
    return hashlib.sha256(np.asarray(tensor.numpy()).tobytes()).hexdigest()
