"""Which operations XLA compiles together, and that a step of such functions gives what it did."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from step_replicas import OneProcess, assert_equal

from tnt_keras.partition import (
    Input,
    PartitionedStep,
    Replicas,
    Sharded,
    TracedStep,
    build,
    trace,
)
from tnt_keras.partition.across_ranks import AcrossRanks
from tnt_keras.partition.clusters import stages_of

NUM_ROWS = 5


def rows(*sizes: int, seed: int = 0) -> Any:
    return np.random.default_rng([seed, *sizes]).normal(size=sizes).astype("float32")


def stages(
    function: Callable[..., Any], outside: str, alike: tuple[str, ...] = ()
) -> list[tuple[bool, set[str]]]:
    """Stages of a function of two rows: whether each is a cluster, and the types that it has.

    All ranks have operations of types that are `alike` with the same inputs.
    """
    spec = tf.TensorSpec([2], tf.float32)
    graph = tf.function(function, autograph=False).get_concrete_function(spec).graph
    across_ranks = AcrossRanks()
    across_ranks.exchanges |= {op for op in graph.get_operations() if op.type == outside}
    across_ranks.note([op for op in graph.get_operations() if op.type in alike], True)
    found = [
        (stage.is_cluster, {op.type for op in stage.operations} - {"Identity", "NoOp"})
        for stage in stages_of(graph, across_ranks)
    ]
    return [(is_cluster, types) for is_cluster, types in found if types]


def test_what_lies_before_and_after_an_exchange_are_two_clusters() -> None:
    assert stages(lambda x: tf.exp(tf.floor(tf.sin(x) * 2.0)), "Floor") == [
        (True, {"Sin", "Mul"}),
        (False, {"Floor"}),
        (True, {"Exp"}),
    ]


def test_what_waits_for_no_exchange_is_in_the_first_cluster() -> None:
    def step(x: tf.Tensor) -> Any:
        return tf.exp(tf.floor(tf.sin(x))), tf.cos(x)

    first, *_ = stages(step, "Floor")
    assert first == (True, {"Sin", "Cos"})


def test_an_exchange_of_what_is_given_comes_before_the_first_cluster() -> None:
    assert stages(lambda x: tf.exp(tf.floor(x)) + tf.sin(x), "Floor") == [
        (False, {"Floor"}),
        (True, {"Exp", "AddV2", "Sin"}),
    ]


def test_there_is_a_cluster_between_any_two_exchanges() -> None:
    found = stages(lambda x: tf.exp(tf.floor(tf.sin(tf.floor(tf.cos(x))))), "Floor")
    assert [is_cluster for is_cluster, _ in found] == [True, False, True, False, True]


def test_what_nothing_needs_is_left_out() -> None:
    def step(x: tf.Tensor) -> tf.Tensor:
        tf.strings.as_string(x)  # which XLA does not know
        return tf.sin(x)

    assert stages(step, "Floor") == [(True, {"Sin"})]


def test_what_waits_for_an_exchange_without_its_result_is_in_the_next_cluster() -> None:
    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.control_dependencies([tf.floor(x)]):
            return tf.sin(x)

    assert stages(step, "Floor") == [(False, {"Floor"}), (True, {"Sin"})]


def test_a_list_that_would_leave_a_cluster_is_outside() -> None:
    def step(x: tf.Tensor) -> tf.Tensor:
        items = tf.raw_ops.TensorListFromTensor(
            tensor=tf.sin(x), element_shape=tf.constant([], tf.int32)
        )
        index = tf.cast(tf.floor(tf.cos(x))[0], tf.int32)
        item = tf.raw_ops.TensorListGetItem(
            input_handle=items,
            index=index,
            element_shape=tf.constant([], tf.int32),
            element_dtype=tf.float32,
        )
        return tf.exp(item)

    found = stages(step, "Floor")
    of_lists = {"TensorListFromTensor", "TensorListGetItem"}
    assert not any(is_cluster and types & of_lists for is_cluster, types in found)
    assert {types for is_cluster, each in found for types in each if is_cluster} >= {"Sin", "Exp"}


def test_a_list_within_a_cluster_stays_there() -> None:
    def step(x: tf.Tensor) -> tf.Tensor:
        items = tf.raw_ops.TensorListFromTensor(
            tensor=tf.sin(x), element_shape=tf.constant([], tf.int32)
        )
        return tf.raw_ops.TensorListStack(
            input_handle=items, element_shape=tf.constant([], tf.int32), element_dtype=tf.float32
        )

    assert stages(step, "Floor") == [
        (True, {"Sin", "TensorListFromTensor", "TensorListStack"}),
    ]


def test_what_ranks_keep_alike_shares_no_cluster_with_rows() -> None:
    w = tf.Variable([1.0, 2.0])

    def step(x: tf.Tensor) -> tf.Tensor:
        w.assign(tf.cos(w.read_value()))
        return tf.floor(tf.sin(x))

    assert stages(step, "Floor", ("ReadVariableOp", "Cos", "AssignVariableOp")) == [
        (True, {"Sin"}),
        (False, {"Floor"}),
        (True, {"ReadVariableOp", "Cos", "AssignVariableOp"}),
    ]


def test_what_ranks_keep_alike_is_computed_with_the_last_of_its_kind() -> None:
    w, rate = tf.Variable([1.0, 2.0]), tf.Variable(1.0)

    def step(x: tf.Tensor) -> None:
        w.assign_sub(tf.exp(rate) * tf.floor(tf.sin(x)))

    assert stages(step, "Floor", ("ReadVariableOp", "Exp", "Mul", "AssignSubVariableOp")) == [
        (True, {"Sin"}),
        (False, {"Floor"}),
        (True, {"ReadVariableOp", "Exp", "Mul", "AssignSubVariableOp"}),
    ]


def test_what_is_alike_but_read_by_rows_alone_is_computed_with_them() -> None:
    w = tf.Variable([1.0, 2.0])
    found = stages(lambda x: tf.floor(x * tf.cos(w)), "Floor", ("ReadVariableOp", "Cos"))
    assert found == [(True, {"ReadVariableOp", "Cos", "Mul"}), (False, {"Floor"})]


def test_what_rows_give_all_ranks_alike_is_outside() -> None:
    w = tf.Variable([1.0, 2.0])

    def step(x: tf.Tensor) -> tf.Tensor:
        w.assign(tf.cos(tf.sin(w.read_value())))  # as of a loop with rows and with weights
        return tf.exp(x)

    found = stages(step, "Floor", ("Cos", "AssignVariableOp"))
    assert (False, {"Sin"}) in found


def compiled_for(
    traced: TracedStep, replicas: Replicas, num_rows: int | None = NUM_ROWS, **arguments: Any
) -> PartitionedStep:
    """A step of (N, 3) features that XLA compiles for one process."""
    return build(
        traced,
        [Input((num_rows, 3), Sharded(0))],
        replicas,
        num_rows,
        lambda tensors: OneProcess(),
        compiles=True,
        **arguments,
    )


def compiled_step(
    function: Callable[..., Any], num_rows: int | None = NUM_ROWS
) -> tuple[PartitionedStep, Any]:
    """A step of (N, 3) features that XLA compiles, and the one that it compiles serially."""
    traced = trace(function, [tf.TensorSpec([None, 3], tf.float32)], compiles=True)
    step = compiled_for(traced, Replicas(0, 1, 1), num_rows)
    return step, traced.concrete_function


def assert_compiled(
    function: Callable[..., Any], variables: list[tf.Variable], **arguments: Any
) -> PartitionedStep:
    """Assert that two steps return and assign what they do serially."""
    step, serial = compiled_step(function, **arguments)
    before = [variable.numpy() for variable in variables]
    outcomes = []
    for run in (serial, step):
        for variable, value in zip(variables, before, strict=True):
            variable.assign(value)
        results = [run(tf.constant(rows(NUM_ROWS, 3, seed=i))) for i in range(2)]
        outcomes.append([results, [variable.numpy() for variable in variables]])
    assert_equal(outcomes[1], outcomes[0])
    return step


def test_a_training_step_becomes_two_functions() -> None:
    w, moment = tf.Variable(rows(3, 4)), tf.Variable(tf.zeros([3, 4]))

    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.tanh(x @ w) ** 2)
        [gradient] = tape.gradient(loss, [w])
        moment.assign(0.9 * moment + gradient)
        w.assign_sub(0.1 * moment)
        return loss

    built = assert_compiled(step, [w, moment])
    assert built.num_clusters == 2
    calls = [op for op in built.function.graph.get_operations() if "PartitionedCall" in op.type]
    assert [call.get_attr("_XlaMustCompile") for call in calls] == [True, True]


def test_totals_that_loss_and_gradient_need_are_between_functions() -> None:
    w = tf.Variable(rows(3, 4))

    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            y = x @ w
            loss = tf.reduce_mean((y - tf.reduce_mean(y, 0)) ** 3)
        w.assign_sub(tape.gradient(loss, w))
        return loss

    assert assert_compiled(step, [w]).num_clusters == 4


def test_what_processes_keep_is_computed_by_equal_functions() -> None:
    """Process 0 has other rows, and adds what all have alike to the gradients that it keeps."""
    w, average, total = (tf.Variable(rows(3, 4)) for _ in range(3))
    direction = tf.Variable(rows(3, 1))

    def step(x: tf.Tensor) -> tf.Tensor:
        direction.assign(tf.math.l2_normalize(w @ (tf.transpose(w) @ direction)))
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.tanh(x @ w)) + 0.1 * tf.reduce_sum(w**2 * direction)
        total.assign_add(tape.gradient(loss, w))
        average.assign(0.9 * average + 0.1 * w)
        return loss

    traced = trace(step, [tf.TensorSpec([None, 3], tf.float32)], compiles=True)
    of_processes = []
    for process in (0, 1):
        built = compiled_for(traced, Replicas(process, 1, 2), accumulators=[total])
        of_processes.append(functions_that_assign(built.function.graph))
    [of_first, of_second] = of_processes
    alike = [function for function in of_first if function in of_second]
    assert [sum(op == "AssignVariableOp" for op, _ in function) for function in alike] == [2]


def functions_that_assign(graph: tf.Graph) -> list[list[tuple[str, list[str]]]]:
    """Operations and their inputs, of each function of a graph that assigns variables."""
    found = [
        [(node.op, list(node.input)) for node in function.node_def]
        for function in graph.as_graph_def().library.function
    ]
    return [each for each in found if any(op == "AssignVariableOp" for op, _ in each)]


def test_what_a_loop_adds_to_a_variable_shares_no_cluster_with_rows() -> None:
    w, average = tf.Variable(rows(3, 4)), tf.Variable(rows(3, 4))

    def step(x: tf.Tensor) -> tf.Tensor:
        for _ in tf.range(2):
            average.assign(0.9 * average + 0.1 * w)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.tanh(x @ w))
        w.assign_sub(tape.gradient(loss, w))
        return loss

    converted = tf.autograph.to_graph(step)
    built = assert_compiled(converted, [w, average])
    bodies = [
        {node.op for node in function.node_def}
        for function in built.function.graph.as_graph_def().library.function
        if "cluster" in function.signature.name
    ]
    assert [types for types in bodies if {"Tanh", "While"} <= types] == []
    assert [types for types in bodies if "While" in types] != []


def test_text_that_only_one_process_prints_is_made_outside() -> None:
    def step(x: tf.Tensor) -> tf.Tensor:
        total = tf.reduce_sum(tf.sin(x))
        tf.print("the total is", total, output_stream="file:///dev/null")
        return total

    traced = trace(step, [tf.TensorSpec([None, 3], tf.float32)], compiles=True)
    for process in (0, 1):
        built = compiled_for(traced, Replicas(process, 1, 2))
        types = {op.type for op in built.function.graph.get_operations()}
        assert "StringFormat" in types
        part = rows(NUM_ROWS, 3)[process::2]
        np.testing.assert_allclose(built(tf.constant(part)), np.sin(part).sum(), rtol=1e-5)


def test_random_numbers_are_those_that_xla_draws_for_the_whole_batch() -> None:
    seed = tf.Variable([1, 2], dtype=tf.int32)

    def step(x: tf.Tensor) -> tf.Tensor:
        noise = tf.random.stateless_uniform(tf.shape(x), seed)
        seed.assign_add([0, 1])
        return x * noise

    assert_compiled(step, [seed])


def test_a_loop_over_rows_is_compiled() -> None:
    w = tf.Variable(rows(3, 3))

    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            y = tf.while_loop(
                lambda i, y: i < 4,
                lambda i, y: (i + 1, tf.tanh(y @ w)),
                (tf.constant(0), x),
                maximum_iterations=4,
            )[1]
            loss = tf.reduce_mean(y)
        w.assign_sub(tape.gradient(loss, w))
        return loss

    assert assert_compiled(step, [w]).num_clusters == 2


def test_a_loop_with_exchanges_stays_outside() -> None:
    def step(x: tf.Tensor) -> tf.Tensor:
        _, y = tf.while_loop(
            lambda i, y: i < 3,
            lambda i, y: (i + 1, y - tf.reduce_mean(tf.tanh(y), 0)),
            (tf.constant(0), tf.sin(x)),
        )
        return tf.exp(y)

    built = assert_compiled(step, [])
    assert any("While" in op.type for op in built.function.graph.get_operations())


def test_a_step_for_any_number_of_rows_is_compiled() -> None:
    w = tf.Variable(rows(3, 2))

    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(x @ w)
        w.assign_sub(tape.gradient(loss, w))
        return tf.sin(x), loss

    built, serial = compiled_step(step, num_rows=None)
    for size in (2, 5, 6):
        x, before = tf.constant(rows(size, 3)), w.numpy()
        expected = serial(x)
        w.assign(before)
        assert_equal(built(x, tf.constant(size, tf.int64)), expected)


def test_what_xla_cannot_compile_is_an_error_as_in_a_serial_step() -> None:
    step, serial = compiled_step(lambda x: tf.strings.to_number(tf.strings.as_string(x)) * 2.0)
    x = tf.constant(rows(NUM_ROWS, 3))
    for run in (lambda: serial(x), lambda: step(x)):
        with pytest.raises(tf.errors.InvalidArgumentError, match="unsupported operations"):
            run()


def test_lanes_are_not_compiled() -> None:
    traced = trace(tf.sin, [tf.TensorSpec([None, 3], tf.float32)])
    with pytest.raises(ValueError, match="lanes"):
        build(
            traced,
            [Input((4, 3), Sharded(0))],
            Replicas(0, 1, 2, are_lanes=True),
            4,
            lambda tensors: OneProcess(),
            compiles=True,
        )
