"""Lanes are computed alike, however many a process has, and as many at once as it is to."""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from step_replicas import OneProcess
from tensorflow.python.eager import context

from tnt_keras.partition import Input, Replicas, Sharded, build, trace
from tnt_keras.partition.combine import combined, widened
from tnt_keras.partition.reshard import Request
from tnt_keras.process.fences import fenced

NUM_LANES = 4
NUM_ROWS = 12


class Fenced(OneProcess):
    """As the exchange of a process with all lanes: what comes from it is opaque."""

    def flush(self, last: bool) -> list[tf.Tensor]:
        return list(map(fenced, super().flush(last)))

    def blocking(self, request: Request) -> tf.Tensor:
        return fenced(super().blocking(request))


def _weights() -> list[tf.Variable]:
    draw = np.random.default_rng(0).normal
    return [tf.Variable(draw(size=size).astype("float32")) for size in ((6, 5), (5,), (5, 5))]


def _own_batch_normalisation(x: Any, kernel: Any, bias: Any, square: Any) -> Any:
    """The square root has one reader, or as many as there are lanes."""
    y = tf.nn.relu(x @ kernel + bias) @ square
    mean, variance = tf.nn.moments(y, axes=[0])
    return tf.reduce_mean((y - mean) / tf.sqrt(variance + 1e-3))


def _sizes_that_are_not_known(x: Any, kernel: Any, bias: Any, square: Any) -> Any:
    """The shape of what one lane has is read for all."""
    y = tf.nn.relu(x @ kernel + bias)
    scale = 1.0 / tf.cast(tf.shape(y)[1], tf.float32)
    return tf.reduce_mean(tf.nn.relu(y @ square) * scale)


def _half_precision(x: Any, kernel: Any, bias: Any, square: Any) -> Any:
    """Where operations are fused, fewer results are rounded."""
    kernel, bias, square = (tf.cast(each, tf.bfloat16) for each in (kernel, bias, square))
    y = tf.nn.relu(tf.nn.bias_add(tf.cast(x, tf.bfloat16) @ kernel, bias))
    return tf.reduce_mean(tf.cast(tf.nn.bias_add(y @ square, bias), tf.float32))


LOSSES = [_own_batch_normalisation, _sizes_that_are_not_known, _half_precision]


def _step(loss_of: Callable[..., Any], weights: list[tf.Variable]) -> Callable[[Any], Any]:
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of(x, *weights)
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(0.1 * gradient)
        return loss

    return step


def _operations_of_process(
    loss_of: Callable[..., Any], count: int, at_once: int
) -> collections.Counter[str]:
    """How many operations of each type run, after TensorFlow has optimised the graph."""
    traced = trace(_step(loss_of, _weights()), [tf.TensorSpec([None, 6])])
    replicas = Replicas(0, count, NUM_LANES, are_lanes=True, at_once=at_once)
    given = [Input((NUM_ROWS, 6), Sharded(0))]
    built = build(traced, given, replicas, NUM_ROWS, lambda tensors: Fenced())
    rows = np.random.default_rng(1).normal(size=(NUM_ROWS, 6)).astype("float32")
    context.enable_run_metadata()
    try:
        built(*(tf.constant(rows[lane::NUM_LANES]) for lane in range(count)))
        graphs = context.export_run_metadata().function_graphs
    finally:
        context.disable_run_metadata()
    steps = [g.post_optimization_graph.node for g in graphs]
    largest = max((s for s in steps if any(n.op == "TntLaneInput" for n in s)), key=len)
    own = {"ConcatV2", "Const", "NoOp", "TntCombine", "TntFence", "_Arg"}  # where lanes meet
    return collections.Counter(node.op for node in largest if node.op not in own)


@pytest.mark.parametrize("at_once", [1, NUM_LANES])
@pytest.mark.parametrize("loss_of", LOSSES)
def test_each_lane_runs_the_same_operations_however_many_a_process_has(
    loss_of: Callable[..., Any], at_once: int
) -> None:
    of_one, of_two, of_four = (_operations_of_process(loss_of, n, at_once) for n in (1, 2, 4))
    of_lane = {kind: of_two[kind] - of_one[kind] for kind in {*of_one, *of_two, *of_four}}
    assert of_lane["_FusedMatMul"] + of_lane["MatMul"] > 0
    assert all(number >= 0 for number in of_lane.values()), of_lane
    assert {kind: of_one[kind] + 3 * number for kind, number in of_lane.items()} == {
        kind: of_four[kind] for kind in of_lane
    }


def test_a_lane_begins_when_one_before_it_has_given_its_part() -> None:
    traced = trace(_step(_own_batch_normalisation, _weights()), [tf.TensorSpec([None, 6])])
    replicas = Replicas(0, 4, 4, are_lanes=True, at_once=2)
    given = [Input((NUM_ROWS, 6), Sharded(0))]
    graph = build(traced, given, replicas, NUM_ROWS, lambda tensors: Fenced()).function.graph
    begins = [op for op in graph.get_operations() if op.type == "TntLaneInput"]
    of_lanes = [op for op in begins if op.inputs[0].op.type == "Placeholder"][:4]
    places = {op.inputs[0].op: lane for lane, op in enumerate(of_lanes)}
    waits = [
        {
            places[source]
            for end in op.control_inputs
            for source in _sources(end)
            if source in places
        }
        for op in of_lanes
    ]
    assert waits == [set(), set(), {0}, {1}]


def _sources(operation: tf.Operation) -> set[tf.Operation]:
    """All operations that an operation waits for, however far."""
    found: set[tf.Operation] = set()
    todo = [operation]
    while todo:
        each = todo.pop()
        if each not in found:
            found.add(each)
            todo += [*each.control_inputs, *(tensor.op for tensor in each.inputs)]
    return found


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.int32, tf.uint32, tf.complex64])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 6, 8])
@pytest.mark.parametrize(("kind", "combine"), [("sum", np.add), ("prod", np.multiply)])
def test_parts_are_combined_neighbours_first(
    kind: str, combine: Any, count: int, dtype: tf.DType
) -> None:
    numbers = np.random.default_rng(3).uniform(1, 3, size=(count, 17, 3))
    parts = list(numbers.astype(dtype.as_numpy_dtype))
    level = list(parts)
    while len(level) > 1:
        fold = next(prime for prime in (2, 3) if len(level) % prime == 0)
        level = [functools.reduce(combine, level[i : i + fold]) for i in range(0, len(level), fold)]
    result = combined([tf.constant(part) for part in parts], kind)
    assert result.numpy().tobytes() == level[0].tobytes()


def test_totals_of_half_precision_are_rounded_once() -> None:
    parts = [tf.constant([1.0, 256.0], tf.bfloat16), tf.constant([2.0**-9, 1.0], tf.bfloat16)]
    parts *= 2
    total = combined(widened(parts), "sum")
    assert total.dtype == tf.float32
    np.testing.assert_array_equal(total, [2 + 2.0**-8, 514.0])  # of bfloat16: 2 and 512
