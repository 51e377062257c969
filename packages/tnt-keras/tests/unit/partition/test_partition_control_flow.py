"""Loops, branches and lists: what is in them has one placement, whichever way the step takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from cases import cases
from step_cases import in_groups, loss_of
from step_replicas import OneProcess, StepInReplicas, assert_equal, assert_replicas, gathered

from tnt_keras.partition import REPLICATED, Input, Replicas, Sharded, build, trace


def rows(*sizes: int, seed: int = 0) -> Any:
    return np.random.default_rng([seed, *sizes]).normal(size=sizes).astype("float32")


of_all_replicas = cases("replicas", [3], thorough=[2])
# Both branches are taken: totals are positive, and negative.
BATCHES = [[np.abs(rows(5, 3))], [-np.abs(rows(5, 3))], [rows(4, 3)]]


def training(function: Any, weights: tf.Variable) -> Any:
    def step(*batch: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(batch)
            values = function(weights, *batch)
            loss = loss_of(values)
        gradients = tape.gradient(loss, [weights, *batch], unconnected_gradients="zero")
        weights.assign_sub(0.02 * gradients[0])
        return values, loss, gradients

    return step


def assert_trains(
    function: Any, *batches: Any, replicas: tuple[int, ...] = (3,), rtol: float = 5e-5
) -> StepInReplicas:
    weights = tf.Variable(rows(3, 3, seed=3))
    return assert_replicas(
        training(function, weights),
        *(batches or BATCHES),
        replicas=replicas,
        variables=[weights],
        rtol=rtol,
    )


def test_a_function_that_had_a_derivative_is_called_without_one() -> None:
    swish = tf.function(lambda y: y * tf.sigmoid(y), autograph=False)
    assert_trains(lambda w, x: swish(x @ w))
    assert_replicas(swish, *BATCHES)


def test_branches_and_functions_of_one_name_have_values_of_their_own() -> None:
    def doubled(x: tf.Tensor) -> tf.Tensor:
        return tf.function(lambda y: tf.maximum(y * 2.0, 0.5), autograph=False)(x)

    def trebled(x: tf.Tensor) -> tf.Tensor:
        return tf.function(lambda y: tf.maximum(y * 3.0, 1.5), autograph=False)(x)

    def function(w: Any, x: Any) -> Any:
        y = x @ w
        return (
            doubled(y) + trebled(y),
            tf.cond(
                tf.reduce_sum(x) > 0,
                lambda: tf.reduce_sum(tf.maximum(y, 0)),
                lambda: tf.reduce_sum(tf.maximum(y, 1)),
            ),
            tf.cond(tf.reduce_sum(x) > 0, lambda: tf.zeros([2, 2]), lambda: tf.ones([2, 2])),
        )

    assert_trains(function)


def test_a_loop_whose_input_must_be_exchanged_first_runs_once() -> None:
    count = tf.Variable(0)

    def step(x: tf.Tensor) -> Any:
        total = tf.reduce_sum(x[:, :1] @ tf.transpose(x[:, 1:2]), 0)  # of rows, along rows

        def turn(i: Any, a: Any) -> Any:
            count.assign_add(1)
            return i + 1, a + x[:, 0]

        branch = tf.cond(
            tf.reduce_max(total) > -9.0, lambda: count.assign_add(100) + 0, lambda: count + 0
        )
        with tf.control_dependencies([branch]):
            return tf.while_loop(lambda i, a: i < 3, turn, [0, total])[1]

    assert_replicas(step, *BATCHES, variables=[count])
    assert count.numpy() == 3 * 103


def test_the_branch_that_is_not_taken_has_no_effect() -> None:
    counts = tf.Variable([0, 0, 0])

    def counted(place: int, value: tf.Tensor) -> tf.Tensor:
        with tf.control_dependencies([counts.scatter_nd_add([[place]], [1])]):
            return tf.identity(value)

    def function(w: Any, x: Any) -> Any:
        first = tf.cond(
            tf.reduce_sum(x) > 0, lambda: counted(0, x @ w), lambda: counted(1, 2.0 * x @ w)
        )
        return first, tf.switch_case(
            tf.cast(tf.reduce_max(x) > 0, tf.int32),
            [lambda: counted(2, first), lambda: first * w[0]],
        )

    weights = tf.Variable(rows(3, 3))
    assert_replicas(training(function, weights), *BATCHES, variables=[weights, counts])


def test_a_branch_that_known_sizes_never_take_may_be_wrong_for_them() -> None:
    """As in scans that halve an axis, whose odd and even lengths are joined in other ways."""
    count = tf.Variable(0.0)

    def halves(y: Any) -> Any:
        # No size but that of the batch is known while the step is traced.
        y = tf.reshape(y, [tf.shape(y)[0], tf.size(y) // tf.shape(y)[0]])
        odd, even = (tf.gather(y, tf.range(i, tf.shape(y)[1], 2), axis=1) for i in (0, 1))
        same = tf.shape(odd)[1] == tf.shape(even)[1]
        joined = tf.cond(same, lambda: tf.stack([odd, even], 2)[:, :, 0], lambda: odd * 2.0)
        one, two, other = (lambda: y[:, :1] + joined), (lambda: joined * 3.0), (lambda: joined)
        return tf.switch_case(tf.shape(odd)[1], [one, one, two, other])

    def function(w: Any, x: Any) -> Any:
        with tf.control_dependencies([count.assign_add(tf.reduce_sum(x))]):
            before = count + 0.0
        y = halves(tf.concat([x @ w, x], 1)) + halves(x @ w)[:, :1]
        tf.cond(tf.shape(x)[1] == 3, lambda: count.assign(count * 2.0), lambda: count.assign(0.0))
        return y, before, count + tf.reduce_sum(y, 0)

    weights = tf.Variable(rows(3, 3, seed=3))
    step = assert_replicas(training(function, weights), *BATCHES, variables=[weights, count])
    assert not step.exchange.blocked


def test_branches_of_other_sizes_meet_as_whole_values() -> None:
    table = tf.Variable(rows(4, 3))

    def function(w: Any, x: Any) -> Any:
        positive = tf.reduce_sum(x) > 0
        y = x @ w
        rows_or_table = tf.cond(positive, lambda: y, lambda: table + 0.0)
        rows_or_fewer = tf.cond(positive, lambda: y, lambda: y[1:] * 2.0)
        rows_or_twice = tf.cond(positive, lambda: y, lambda: tf.concat([y, y], 0))
        rows_or_columns = tf.cond(
            positive, lambda: tf.transpose(y) @ y, lambda: (y @ tf.transpose(y))[:3, :3]
        )
        return (
            rows_or_table, rows_or_fewer, rows_or_twice, rows_or_columns, tf.shape(rows_or_fewer),
            tf.reduce_mean(rows_or_twice, 0), tf.reshape(rows_or_table, [-1]),
        )  # fmt: skip

    assert_trains(function)


def test_branches_with_totals_extremes_truths_rows_and_constants_in_any_order() -> None:
    def function(w: Any, x: Any) -> Any:
        y = x @ w
        made = [
            lambda: tf.reduce_sum(y, 0),
            lambda: tf.reduce_max(y, 0),
            lambda: tf.reduce_prod(y, 0),
            lambda: w[0] + 0.0,
            lambda: tf.constant([1.0, 2.0, 3.0]),
            lambda: y[0],
            lambda: tf.reduce_mean(y, 0),
        ]
        positive = tf.reduce_sum(x) > 0
        numbers = [tf.cond(positive, a, b) for a, b in zip(made, [*made[1:], made[0]], strict=True)]
        truths = tf.cond(
            positive, lambda: tf.reduce_any(y > 1.0, 0), lambda: tf.constant([True, False, True])
        )
        return (
            numbers,
            truths,
            tf.cond(positive, lambda: tf.reduce_all(y > 1.0, 0), lambda: y[0] > 0),
        )

    assert_trains(function)


def test_extremes_and_truths_carried_through_a_loop() -> None:
    def step(x: tf.Tensor) -> Any:
        def turn(i: Any, a: Any, b: Any) -> Any:
            return i + 1, tf.reduce_max(x * a, 0), tf.logical_or(b, tf.reduce_any(x * a > 1.0))

        return tf.while_loop(lambda i, a, b: i < 3, turn, [0, tf.ones(3), False])

    assert_replicas(step, *BATCHES)


LOOPS: dict[str, Any] = {
    "a total that the condition reads": lambda w, x: tf.while_loop(
        lambda i, a: tf.reduce_sum(a) < 20.0,
        lambda i, a: (i + 1, a + tf.reduce_sum(tf.abs(x @ w), 0)),
        [0, tf.zeros(3)],
    ),
    "a total that is returned twice": lambda w, x: tf.while_loop(
        lambda i, a, b, c: i < 4,
        lambda i, a, b, c: (i + 1, a + tf.reduce_sum(x @ w, 0), a, tf.tanh(b)),
        [0, tf.zeros(3), tf.ones(3), tf.zeros(3)],
    ),
    "totals and weights that change places": lambda w, x: tf.while_loop(
        lambda i, a, b, c: i < 5,
        lambda i, a, b, c: (i + 1, b + tf.reduce_sum(x @ w, 0), a + 1.0, c + a),
        [0, tf.zeros(3), w[0] * 1.0, tf.zeros(3)],
    ),
    "a total of whole numbers": lambda w, x: (
        x @ w,
        tf.while_loop(
            lambda i, a: i < 4,
            lambda i, a: (i + 1, a + tf.reduce_sum(tf.cast(x @ w > 0, tf.int32), 0)),
            [0, tf.zeros(3, tf.int32)],
        ),
    ),
    "a total beside what all replicas add": lambda w, x: tf.while_loop(
        lambda i, a: i < 3,
        lambda i, a: (i + 1, a + (tf.reduce_sum(x @ w, 0) + w[0])),
        [0, w[1] * 2.0],
    ),
    "what all replicas add and nothing else": lambda w, x: (
        tf.while_loop(
            lambda i, a: i < 3, lambda i, a: (i + 1, a + tf.sin(w[0])), [0, tf.zeros(3)]
        )[1],
        x @ w,
    ),
    "a total doubled in each turn": lambda w, x: tf.while_loop(
        lambda i, a: i < 3, lambda i, a: (i + 1, a + a), [0, tf.reduce_sum(x @ w, 0)]
    )[1],
    "a scalar that grows into rows": lambda w, x: tf.while_loop(
        lambda i, a: i < 2,
        lambda i, a: (i + 1, a + x @ w),
        [0, tf.zeros([1, 3])],
        shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, 3])],
    ),
    "rows and no rows that rotate": lambda w, x: tf.while_loop(
        lambda i, a, b, c: i < 5,
        lambda i, a, b, c: (i + 1, b + 1.0, c, tf.transpose(a)),
        [0, x @ tf.transpose(x @ w), tf.zeros([tf.shape(x)[0]] * 2), tf.ones([tf.shape(x)[0]] * 2)],
    )[1:],
    "rows that shrink": lambda w, x: tf.while_loop(
        lambda i, a: i < 2,
        lambda i, a: (i + 1, a[:3] * 2.0),
        [0, x @ w],
        shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, 3])],
    )[1],
    "rows that grow from nothing": lambda w, x: tf.while_loop(
        lambda i, a: i < 2,
        lambda i, a: (i + 1, tf.concat([a, x @ w], 0)),
        [0, tf.zeros([0, 3])],
        shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, 3])],
    )[1],
    "rows that grow": lambda w, x: tf.while_loop(
        lambda i, a: i < 2,
        lambda i, a: (i + 1, tf.concat([a, tf.tanh(a[-2:] @ w), x @ w], 0)),
        [0, x @ w],
        shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, 3])],
    )[1],
    "rows that grow, in a list": lambda w, x: tf.while_loop(
        lambda i, a, kept: i < 2,
        lambda i, a, kept: (i + 1, tf.concat([a, x @ w], 0), kept.write(i, a)),
        [0, x @ w, tf.TensorArray(tf.float32, 2, infer_shape=False, element_shape=[None, 3])],
        shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, 3]), tf.TensorShape(None)],
    )[2].concat(),
    "rows that become wider": lambda w, x: tf.while_loop(
        lambda i, a: i < 2,
        lambda i, a: (i + 1, tf.concat([a, x @ w], 1)),
        [0, x @ w],
        shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, None])],
    )[1],
    "rows halved until one is left": lambda w, x: tf.while_loop(
        lambda a: tf.shape(a)[0] > 1,
        lambda a: [(a + tf.reverse(a, [0]))[: (tf.shape(a)[0] + 1) // 2]],
        [x @ w],
        shape_invariants=[tf.TensorShape([None, 3])],
    )[0],
    "as many turns as rows": lambda w, x: tf.while_loop(
        lambda i, a: i < tf.shape(x)[0],
        lambda i, a: (i + 1, tf.tanh(a + x @ w)),
        [0, tf.zeros_like(x)],
    )[1],
    "a row picked in each turn": lambda w, x: tf.while_loop(
        lambda i, a: i < tf.shape(x)[0],
        lambda i, a: (i + 1, tf.tanh(a + (x @ w)[i])),
        [0, tf.zeros(3)],
    )[1],
    "power iteration": lambda w, x: tf.while_loop(
        lambda i, v: i < 4,
        lambda i, v: (
            i + 1,
            tf.math.l2_normalize(
                tf.linalg.matvec(x @ w, tf.linalg.matvec(x @ w, v), transpose_a=True)
            ),
        ),
        [0, tf.ones(3)],
    )[1],
    "conjugate directions": lambda w, x: tf.while_loop(
        lambda i, u, r: (i < 4) & (tf.reduce_sum(r * r) > 1e-3),
        lambda i, u, r: (i + 1, u + 0.1 * r, r - 0.1 * tf.linalg.matvec(x @ tf.transpose(x), r)),
        [0, tf.zeros(tf.shape(x)[0]), tf.reduce_sum(x @ w, 1)],
    )[1],
}  # fmt: skip


@of_all_replicas
@in_groups("function", LOOPS)
def test_a_loop_with(function: Any, replicas: int) -> None:
    assert_trains(function, *BATCHES[::2], replicas=(replicas,), rtol=2e-4)


LISTS: dict[str, Any] = {
    "blocks of other sizes": lambda w, x: (
        lambda ta: (ta.read(0), ta.read(1), ta.read(2))
    )(
        tf.TensorArray("float32", 3, infer_shape=False, clear_after_read=False)
        .write(0, x @ w).write(1, w * 2.0).write(2, (x @ w)[1:])
    ),
    "values of other ranks": lambda w, x: (
        lambda ta: (ta.read(0), ta.read(1), ta.read(2))
    )(
        tf.TensorArray("float32", 3, infer_shape=False)
        .write(0, x @ w).write(1, tf.reduce_sum(x @ w, 0)).write(2, w * 1.0)
    ),
    "rows set by scatter and by write": lambda w, x: (
        lambda ta: (ta.read(0), ta.read(1))
    )(
        tf.TensorArray("float32", 2, infer_shape=False)
        .scatter([0], (x @ w)[None]).write(1, 2.0 * x)
    ),
    "parts of the batch": lambda w, x: (
        lambda ta: (ta.read(0), ta.read(1), ta.read(2))
    )(tf.TensorArray("float32", 3, infer_shape=False).split(x @ w, [2, 1, tf.shape(x)[0] - 3])),
    "an element that was never set": lambda w, x: (
        tf.TensorArray("float32", 3, element_shape=[None, 3])
        .write(0, x @ w).write(2, x).stack()
    ),
    "elements along several axes": lambda w, x: (
        tf.TensorArray("float32", 2)
        .write(0, x @ tf.transpose(x @ w))
        .write(1, tf.transpose(x @ tf.transpose(x @ w)))
        .stack()
    ),
    "totals beside weights": lambda w, x: (
        tf.TensorArray("float32", 2)
        .write(0, tf.transpose(x) @ (x @ w)).write(1, w * 2.0).stack()
    ),
    "an element written twice": lambda w, x: (
        tf.TensorArray("float32", 1, clear_after_read=False)
        .write(0, x @ w).write(0, x * 2.0).read(0)
    ),
    "a list read and written in turn": lambda w, x: tf.while_loop(
        lambda i, ta: i < 3,
        lambda i, ta: (i + 1, ta.write(i + 1, tf.tanh(ta.read(i) @ w))),
        [0, tf.TensorArray("float32", 4, clear_after_read=False).write(0, x)],
    )[1].stack(),
    "rows taken out in another order": lambda w, x: (
        tf.TensorArray("float32", tf.shape(x)[0]).unstack(x @ w).gather([2, 0, 1])
    ),
    "rows put back in another order": lambda w, x: (
        tf.TensorArray("float32", 5, element_shape=[3]).scatter([4, 1, 0], (x @ w)[:3]).stack()
    ),
    "a list from a branch": lambda w, x: tf.cond(
        tf.reduce_sum(x) > 0,
        lambda: tf.TensorArray("float32", 2).write(0, x @ w).write(1, x).stack(),
        lambda: tf.stack([x, x @ w]),
    ),
    "lists of whole numbers": lambda w, x: (
        x @ w,
        tf.while_loop(
            lambda i, ta: i < 3,
            lambda i, ta: (i + 1, ta.write(i, tf.argmax(x * tf.cast(i, "float32"), 1))),
            [0, tf.TensorArray("int64", 3)],
        )[1].concat(),
    ),
}  # fmt: skip


@of_all_replicas
@in_groups("function", LISTS)
def test_a_list_with(function: Any, replicas: int) -> None:
    assert_trains(function, *BATCHES[::2], replicas=(replicas,))


def test_an_element_that_was_never_set_is_zero_whatever_others_are() -> None:
    def step(x: tf.Tensor) -> Any:
        values = tf.TensorArray("int32", 3, element_shape=[], clear_after_read=False).write(0, 5)
        sizes = tf.TensorArray("int32", 2, element_shape=[2], clear_after_read=False).write(
            1, tf.shape(x)
        )
        return values.read(1), values.read(0), values.stack(), sizes.read(0), sizes.read(1), x

    assert_replicas(step, [rows(5, 3)], rtol=0)


def test_a_recurrent_layer_gathers_nothing_and_adds_up_its_weights_once() -> None:
    def function(w: Any, x: Any) -> Any:
        return tf.scan(
            lambda a, b: tf.tanh(a @ w + b), tf.transpose(x, [1, 0, 2]), tf.zeros_like(x[:, 0])
        )

    step = assert_trains(function, [rows(5, 7, 3)], replicas=(2,))
    assert gathered(step) == []
    assert step.exchange.blocked == []
    assert len(step.exchange.flushes) == 1


def test_lists_of_lists_of_an_inner_loop_reach_its_gradient() -> None:
    def function(w: Any, x: Any) -> Any:
        def inner(a: Any) -> Any:
            return tf.while_loop(
                lambda j, b: j < 2, lambda j, b: (j + 1, tf.tanh(b @ w + a)), [0, a]
            )[1]

        def chosen(a: Any) -> Any:
            return tf.cond(
                tf.reduce_max(a) > 0.5, lambda: tf.tanh(inner(a)), lambda: tf.sin(a + a @ w)
            )

        return tf.while_loop(
            lambda i, a: i < 3, lambda i, a: (i + 1, chosen(inner(a)) * 1.1), [0, x]
        )[1]

    assert_trains(function)


def test_a_step_with_a_loop_of_autograph() -> None:
    @tf.function
    def summed(y: tf.Tensor) -> tf.Tensor:
        total = tf.zeros(3)
        for row in y:
            if tf.reduce_sum(row) > 0:
                total += tf.tanh(row)
            else:
                total -= row
        while tf.reduce_sum(total) > 1.0:
            total *= 0.5
        return total

    assert_trains(lambda w, x: summed(x @ w))


def test_branches_decided_when_the_step_is_built_are_the_ones_that_run() -> None:
    """The same step, with its condition in the graph, and with its condition asked of nobody."""

    def step(x: tf.Tensor, flag: tf.Tensor) -> Any:
        return tf.cond(flag, lambda: tf.reduce_sum(x, 0), lambda: tf.reduce_mean(x, 0))

    traced = trace(step, [tf.TensorSpec([None, 3]), tf.TensorSpec([], tf.bool)])
    x = tf.constant(rows(5, 3))
    inputs = [Input((5, 3), Sharded(0)), Input((), REPLICATED)]
    for taken in (True, False):
        built = build(
            traced,
            inputs,
            Replicas(0, 2, 2),
            5,
            lambda _: OneProcess(),
            decide=lambda node, taken=taken: taken,
        )
        assert not [s for s in built.plan.steps if s.node.type.endswith("If")]
        assert_equal(
            built(x[::2], x[1::2], tf.constant(taken)),
            traced.concrete_function(x, tf.constant(taken)),
        )
