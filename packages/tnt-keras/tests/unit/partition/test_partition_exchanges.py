# ruff: noqa: E501 - steps of one line
"""What is exchanged: no more than the mathematics needs, in few exchanges, and the same on all ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import steps_of_batches
import steps_of_data
import steps_of_loops
import steps_of_shapes
import tensorflow as tf
from cases import cases
from step_cases import loss_of
from step_replicas import OneProcess, StepInReplicas, all_steps, assert_equal, gathered
from two_processes import run_in_two_processes

from tnt_keras.partition import REPLICATED, Input, Replicas, Request, Sharded, build, trace
from tnt_keras.partition.plan import Broadcast

STEPS = {
    name: case
    for module in (steps_of_shapes, steps_of_batches, steps_of_loops, steps_of_data)
    for name, case in module.STEPS.items()
}


def rows(*sizes: int, seed: int = 0) -> Any:
    return np.random.default_rng([seed, *sizes]).normal(size=sizes).astype("float32")


class OneOfMany(OneProcess):
    """The exchange of one process of many, in a graph that is built and never run.

    Attributes:
        order: What is asked of it, in order; what must be the same for all processes.
    """

    def __init__(self, replicas: Replicas, num_rows: int) -> None:
        super().__init__()
        self.num_mine, self.num_rows = replicas.num_rows(replicas.first, num_rows), num_rows
        self.order: list[Any] = []

    def ask(self, request: Request) -> None:
        super().ask(request)
        self._note(request)

    def flush(self, last: bool) -> list[tf.Tensor]:
        self.order.append(("exchange", last))
        return [
            self._result(r, t) for r, t in zip(list(self.asked), super().flush(last), strict=True)
        ]

    def blocking(self, request: Request) -> tf.Tensor:
        self._note(request)
        return self._result(request, super().blocking(request))

    def _note(self, request: Request) -> None:
        shape = self._shape(request)
        dtype = request.value.dtype.name
        self.order.append(
            (request.kind, request.name, request.line, dtype, str(shape), request.is_update)
        )

    def _shape(self, request: Request) -> tf.TensorShape:
        """The shape of the result, as far as a process can know it."""
        shape = request.value.shape
        if request.kind == "broadcast":
            return tf.TensorShape(None)  # only rank 0 knows
        if request.kind == "gather":
            assert shape[0] == self.num_mine
            return tf.TensorShape([self.num_rows]).concatenate(shape[1:])
        return shape

    def _result(self, request: Request, tensor: tf.Tensor) -> tf.Tensor:
        if request.kind in ("broadcast", "gather"):
            return tf.compat.v1.placeholder(tensor.dtype, self._shape(request))
        return tensor


def orders(step: StepInReplicas, batch: Any, ranks: int) -> list[list[Any]]:
    """What each of so many processes, with a replica each, asks for."""
    tensors = [tf.convert_to_tensor(a) for a in batch]
    num_rows = int(tensors[0].shape[0])
    inputs = [Input(tuple(t.shape), Sharded(0)) for t in tensors]
    asked = []
    for rank in range(ranks):
        replicas = Replicas(rank, 1, ranks)
        exchange = OneOfMany(replicas, num_rows)
        build(step.traced, inputs, replicas, num_rows, lambda _, exchange=exchange: exchange)
        asked.append(exchange.order)
    return asked


# Of each sort some: the rest is in the long tests.
USUAL = {
    "views_joined_and_compared_with_each_other", "rows_joined_with_themselves_but_one",
    "hard_triplets", "truths_about_the_batch", "complex_totals",
    "unique_labels_and_means_of_their_rows", "a_loop_in_a_loop_with_totals", "a_branch_in_a_loop",
    "branches_of_other_sizes", "rows_read_one_by_one_from_a_list", "numbers_of_python_functions",
    "checks_of_numbers_and_shapes", "words_joined_and_split", "drawn_by_seeds",
}  # fmt: skip


@cases("name", [n for n in STEPS if n in USUAL], thorough=STEPS)
def test_all_processes_ask_for_the_same_in_the_same_order(name: str) -> None:
    """Some have more rows than others, and one row where the batch has several."""
    case = STEPS[name]
    weights = case.new_weights()
    batch = case.batch(4)
    step = StepInReplicas(case.train_step(weights), batch, variables=[weights])
    first, *others = orders(step, batch, 3)
    for other in others:
        assert other == first
    assert [entry[1] for entry in first if entry[0] == "exchange"].count(True) <= 1


def exchanged(step: StepInReplicas, batch: Any, replicas: int = 2) -> list[list[str]]:
    """The kinds that each exchange of a step consists of; what blocks comes last, each by itself."""
    step.step(batch, replicas)
    return [[r.kind for r in flush] for flush in step.exchange.flushes] + [
        [r.kind] for r in step.exchange.blocked
    ]


def test_gradients_and_metrics_of_a_network_travel_in_one_exchange() -> None:
    w, v, mean = tf.Variable(rows(4, 8)), tf.Variable(rows(8, 1)), tf.Variable(0.0, trainable=False)

    def step(x: tf.Tensor, y: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            p = tf.tanh(x @ w) @ v
            loss = tf.reduce_mean(tf.square(p - y))
        for variable, gradient in zip([w, v], tape.gradient(loss, [w, v]), strict=True):
            variable.assign_sub(0.1 * gradient)
        mean.assign(0.9 * mean + 0.1 * loss)
        return loss, tf.reduce_max(tf.abs(p - y)), tf.reduce_sum(tf.cast(p > 0, tf.int32))

    batch = [rows(5, 4), rows(5, 1)]
    traced = StepInReplicas(step, batch, variables=[w, v, mean])
    [kinds] = exchanged(traced, batch)
    assert sorted(kinds) == ["max", "sum", "sum", "sum", "sum"]
    updates = [r for r in traced.exchange.flushes[0] if r.is_update]
    assert sorted(tuple(r.value.shape) for r in updates) == [(4, 8), (8, 1)]


def test_gradients_that_pass_an_identity_with_one_of_an_early_total_wait_for_no_other() -> None:
    """Optimizers pass all gradients through one `IdentityN`; some lead to rows, others do not."""
    w, g = tf.Variable(rows(3, 4)), tf.Variable(rows(4))

    def function(x: Any) -> Any:
        with tf.GradientTape() as tape:
            y = x @ (w * g / tf.norm(w))
            z = y * tf.reduce_mean(y, 0)
            loss = tf.reduce_sum(z**2)
        gradients = tf.identity_n([*tape.gradient(loss, [w, g]), tf.reduce_mean(y)])
        return [t * tf.reduce_sum(t) for t in gradients]

    step = StepInReplicas(function, [rows(7, 3)], variables=[w, g])
    batch = [rows(7, 3)]
    assert_equal(step.in_replicas(batch, 2), step.serial(batch))
    # The mean, its derivative, and what is summed over rows for the updates.
    assert [len(level) for level in exchanged(step, batch)] == [1, 1, 2]


def test_a_total_that_many_read_is_formed_once() -> None:
    w = tf.Variable(rows(4, 3))

    def step(x: tf.Tensor) -> Any:
        total = tf.transpose(x) @ (x @ w)
        moments = [0.9 * total, total * total, total + 1.0, -total, tf.norm(total)]
        w.assign_sub(total / (1.0 + tf.norm(total)))
        return moments

    batch = [rows(5, 4)]
    assert exchanged(StepInReplicas(step, batch, variables=[w]), batch) == [["sum"]]


def test_values_that_rows_wait_for_travel_by_level_and_the_rest_at_the_end() -> None:
    def step(x: tf.Tensor) -> Any:
        scale, shift = tf.reduce_max(tf.abs(x), 0), tf.reduce_mean(x, 0)
        y = (x - shift) / scale
        spread = tf.reduce_mean(tf.square(y), 0)
        z = y * tf.math.rsqrt(spread + 1.0)
        return tf.reduce_sum(z, 0), tf.reduce_sum(x), tf.reduce_min(y)

    batch = [rows(5, 4)]
    assert [sorted(k) for k in exchanged(StepInReplicas(step, batch), batch)] == [
        ["max", "sum"],
        ["sum"],
        ["min", "sum", "sum"],
    ]


def test_a_contrastive_step_gathers_embeddings_once() -> None:
    w = tf.Variable(rows(4, 3))

    def step(x: tf.Tensor, label: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            z = tf.math.l2_normalize(x @ w, 1)
            same = tf.cast(label[:, None] == label[None], tf.float32)
            loss = tf.reduce_mean(same * tf.nn.log_softmax(z @ tf.transpose(z)))
        w.assign_sub(tape.gradient(loss, w))
        return loss

    batch = [rows(6, 4), np.arange(6) % 3]
    traced = StepInReplicas(step, batch, variables=[w])
    kinds = exchanged(traced, batch)
    assert sorted(kinds[0]) == ["gather", "gather"]  # embeddings and labels, as columns
    assert gathered(traced) == []
    assert sum(kind == "gather" for flush in kinds for kind in flush) == 2


def test_what_is_computed_row_by_row_exchanges_nothing_but_results() -> None:
    def step(x: tf.Tensor) -> Any:
        y = tf.nn.softmax(tf.reshape(tf.transpose(x), [2, 2, -1]) * 2.0, 0)
        return tf.reduce_max(tf.transpose(tf.reshape(y, [4, -1])), 1)

    batch = [rows(5, 4)]
    assert exchanged(StepInReplicas(step, batch), batch) == [["gather"]]


def test_a_step_on_values_that_all_have_exchanges_nothing() -> None:
    w = tf.Variable(rows(3, 3))

    def step(x: tf.Tensor) -> Any:
        w.assign(w @ w / tf.cast(tf.shape(x)[0], tf.float32))
        return (
            tf.reduce_sum(w),
            tf.random.stateless_normal([3], [1, 2]),
            tf.while_loop(lambda i: i < 3, lambda i: [i + 1], [0]),
        )

    batch = [rows(5, 4)]
    assert exchanged(StepInReplicas(step, batch, variables=[w]), batch) == []


@pytest.mark.parametrize("count", [2, 5, 9])
def test_partial_sums_of_totals_weights_and_rows_under_any_sum_end_in_one_exchange(
    count: int,
) -> None:
    """A value that waits is not asked for again each time it is looked at."""
    w = tf.Variable(rows(3))

    def step(x: tf.Tensor) -> Any:
        terms = [tf.reduce_sum(x * float(i), 0) for i in range(count)]
        return tf.add_n([*terms, w + 1.0]), tf.add_n([tf.reduce_sum(tf.square(x), 0), w, *terms])

    batch = [rows(5, 3)]
    kinds = exchanged(StepInReplicas(step, batch, variables=[w]), batch)
    assert len(kinds) == 1
    assert len(kinds[0]) <= count + 1


def test_sums_that_all_processes_form_do_not_depend_on_what_else_they_do() -> None:
    """TensorFlow adds first the term whose buffer has become free: other bits in each process."""
    w = tf.Variable(rows(4, 64, 64))

    def function(x: Any) -> Any:
        a, b, c, d = (tf.sin(t) for t in tf.unstack(w))
        others = [tf.exp(a) * b, tf.cos(c) + d, tf.exp(c) * d, x]
        sums = tf.stack([a + b + c + d, tf.add_n([a, b, c, d])])
        return sums, [tf.reduce_sum(t) for t in others]

    step, batch = StepInReplicas(function, [rows(4, 3)]), [rows(4, 3)]
    assert_equal(step.in_replicas(batch, 2), step.serial(batch))
    assert len({step.in_replicas(batch, 2)[0].numpy().tobytes() for _ in range(300)}) == 1


def test_an_operation_on_rank_zero_is_in_the_graph_of_rank_zero_alone() -> None:
    def step(x: tf.Tensor) -> Any:
        tf.print(x, output_stream="file:///dev/null")
        value = tf.numpy_function(lambda a: a.sum(), [x], tf.float32)
        tf.cond(
            tf.reduce_sum(x) > 0,
            lambda: tf.print("inside", output_stream="file:///dev/null"),
            tf.no_op,
        )
        return value, tf.random.uniform([2])

    x = rows(5, 3)
    traced = trace(step, [tf.TensorSpec([None, 3])])
    found = []
    for rank in range(3):
        replicas = Replicas(rank, 1, 3)
        built = build(
            traced,
            [Input((5, 3), Sharded(0))],
            replicas,
            5,
            lambda _, replicas=replicas: OneOfMany(replicas, 5),
        )
        definition = built.function.graph.as_graph_def()
        nodes = [*definition.node, *(n for f in definition.library.function for n in f.node_def)]
        found.append(sorted(n.op for n in nodes if n.op in ("PrintV2", "PyFunc", "RandomUniform")))
        assert sum(isinstance(s, Broadcast) for s in all_steps(built.plan)) == 4
    assert found == [["PrintV2", "PrintV2", "PyFunc", "RandomUniform"], [], []]
    assert x.shape == (5, 3)


# ---------------------------------------------------------------- replicas of two processes


def without_assignment(name: str) -> Any:
    """The step of a case that returns gradients and moves nothing, traced, and a batch of it."""
    case = STEPS[name]
    weights = case.new_weights()

    def pure(*batch: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            values = case.function(weights, *batch)
            loss = loss_of(values)
        return values, loss, tape.gradient(loss, weights, unconnected_gradients="zero")

    batch = case.batch(6)
    specs = [tf.TensorSpec([None, *a.shape[1:]], tf.as_dtype(tf.constant(a).dtype)) for a in batch]
    return trace(pure, specs), batch


IN_TWO = {
    "views_joined_and_compared_with_each_other", "hard_triplets", "truths_about_the_batch",
    "complex_totals", "a_loop_in_a_loop_with_totals", "branches_of_other_sizes",
    "rows_read_one_by_one_from_a_list", "words_joined_and_split",
}  # fmt: skip


@cases("replicas_each", [2], thorough=[1])
@cases("name", [n for n in STEPS if n in IN_TWO], thorough=STEPS)
def test_two_processes_return_the_same_bits_and_what_one_returns(
    name: str, replicas_each: int
) -> None:
    traced, batch = without_assignment(name)
    expected = traced.concrete_function(*[tf.convert_to_tensor(a) for a in batch])
    first, second = run_in_two_processes(traced, batch, replicas_each)
    assert_equal(first, second, rtol=0)
    assert_equal(first, expected, rtol=3 * STEPS[name].rtol)


# ---------------------------------------------------------------- the description of a trace


def described(function: Callable[..., Any], *sizes: int) -> str:
    return "\n".join(trace(function, [tf.TensorSpec([None, *(sizes or (3,))])]).description())


def test_the_description_of_a_trace_tells_functions_apart_by_what_they_do() -> None:
    def loop(factor: float, turns: int = 3) -> Callable[..., Any]:
        return lambda x: tf.while_loop(
            lambda i, a: i < turns, lambda i, a: (i + 1, a * factor), [0, x]
        )

    def branch(factor: float) -> Callable[..., Any]:
        return lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: x * factor, lambda: x)

    def nested(factor: float) -> Callable[..., Any]:
        return lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: loop(factor)(x)[1], lambda: x)

    captured = [tf.constant([1.0, 2.0, 3.0]), tf.constant([1.0, 2.0, 4.0])]
    functions: list[Callable[..., Any]] = [
        lambda x: x * 2.0,
        lambda x: x * 3.0,
        lambda x: x + 2.0,
        lambda x: tf.reduce_sum(x, 0),
        lambda x: tf.reduce_sum(x, 1),
        lambda x: x * captured[0],
        lambda x: x * captured[1],
        lambda x: tf.function(lambda y: y * 5.0, autograph=False)(x),
        loop(2.0), loop(3.0), loop(2.0, 4), branch(2.0), branch(3.0), nested(2.0), nested(3.0),
    ]  # fmt: skip
    descriptions = [described(f) for f in functions]
    assert len(set(descriptions)) == len(functions)
    assert descriptions == [described(f) for f in functions]
    assert described(functions[0], 4) != descriptions[0]


def test_the_description_of_a_trace_does_not_depend_on_names_and_seeds() -> None:
    tf.random.set_seed(1)
    first = described(
        lambda x: tf.random.normal(tf.shape(x), name="here") * tf.identity(x, name="a")
    )
    tf.random.set_seed(2)
    assert (
        described(lambda x: tf.random.normal(tf.shape(x), name="there") * tf.identity(x, name="b"))
        == first
    )


def test_the_inputs_that_stay_whole_need_no_replicas() -> None:
    traced = trace(lambda x: tf.reduce_sum(x, 0), [tf.TensorSpec([None, 3])])
    exchange = OneProcess()
    x = tf.constant(rows(1, 3))
    built = build(traced, [Input((1, 3), REPLICATED)], Replicas(0, 3, 3), 1, lambda _: exchange)
    np.testing.assert_array_equal(built(x), tf.reduce_sum(x, 0))
    assert exchange.flushes == []


def test_the_arithmetic_of_a_loop_counts_as_often_as_it_runs() -> None:
    weights = tf.eye(4)

    def share(num_turns: int) -> float:
        x = tf.random.normal([8, 4])

        def function(x: tf.Tensor) -> tf.Tensor:
            _, x = tf.while_loop(
                lambda i, x: i < num_turns,
                lambda i, x: (i + 1, tf.matmul(x, weights)),
                (0, x),
            )
            return tf.reduce_sum(tf.linalg.svd(x, compute_uv=False))

        return StepInReplicas(function, [x]).step([x], 2).explanation.replicated_share

    # A product of 8 x 4 and 4 x 4 numbers; the loop's counter is no arithmetic on rows.
    alike = share(1) / (1 - share(1)) * 8 * 4 * 4
    assert share(100) == pytest.approx(alike / (alike + 100 * 8 * 4 * 4))


def test_samples_that_a_loop_takes_one_after_the_other_are_said_to_be_computed_alike() -> None:
    x, weights = tf.random.normal([8, 4]), tf.eye(4)

    def product(row: tf.Tensor) -> tf.Tensor:
        return tf.linalg.matvec(weights, row)

    def explanation(mapping: Any) -> Any:
        step = StepInReplicas(lambda x: tf.reduce_sum(mapping(product, x)), [x]).step([x], 2)
        return step.explanation

    assert explanation(tf.map_fn).replicated_share > 0.9
    [warning] = explanation(tf.map_fn).warnings()
    assert "rows are gathered at" in warning
    assert explanation(tf.vectorized_map).replicated_share == 0
    assert explanation(tf.vectorized_map).warnings() == []
