"""A step as TensorFlow traces it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tnt_keras.partition.description import describe_graph
from tnt_keras.partition.flat_graph import FlatGraph, Node
from tnt_keras.partition.operations import uncollected
from tnt_keras.partition.variables_of_trace import OwnVariables, trace_with_variables


class TracedStep:
    """A function as TensorFlow traced it, for any batch. Local."""

    def __init__(
        self, function: Callable[..., Any], specs: Sequence[Any], made_at_once: OwnVariables
    ) -> None:
        begin = time.process_time()
        with uncollected():
            traced = trace_with_variables(function, specs, made_at_once)
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
        self.bodies: dict[Any, FlatGraph] = {}
        self._draw_counters: dict[str, tf.Variable] = {}

    def draw_counter(self, node: Node) -> tf.Variable:
        """Return what all graphs of the step share of the state of a draw, see `seeded_draws`."""
        if node.name not in self._draw_counters:
            self._draw_counters[node.name] = tf.Variable(0, dtype=tf.int64, trainable=False)
        return self._draw_counters[node.name]

    def description(self) -> list[str]:
        """Return a line for each operation, with exactly what all ranks must have in common."""
        return describe_graph(self.graph, self.captures, self.flat)


def trace(
    function: Callable[..., Any], specs: Sequence[Any], made_at_once: OwnVariables = tuple
) -> TracedStep:
    """Trace a function of tensors as `tf.function` does, without AutoGraph. Local.

    `made_at_once` is that of `trace_with_variables`.
    """
    return TracedStep(function, specs, made_at_once)
