"""What a step does besides its results: once, in the order of the trace, and with whole values."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from step_replicas import OneProcess, StepInReplicas, all_steps, assert_equal, assert_replicas

from tnt_keras.partition import Input, Replicas, Sharded, build, trace
from tnt_keras.partition.plan import Broadcast


def rows(*sizes: int, seed: int = 0) -> Any:
    return np.random.default_rng([seed, *sizes]).normal(size=sizes).astype("float32")


BATCHES = [[np.abs(rows(5, 3))], [-np.abs(rows(4, 3))], [rows(7, 3)]]


def run_in_replicas(function: Any, *batches: Any, replicas: int = 3) -> list[Any]:
    step = StepInReplicas(function, batches[0])
    return [step.in_replicas(batch, replicas) for batch in batches]


def on_rank_zero(step: StepInReplicas) -> list[str]:
    """The types of operations that run on rank 0 alone."""
    return sorted(
        {
            s.node.type
            for b in step.built.values()
            for s in all_steps(b.plan)
            if isinstance(s, Broadcast)
        }
    )


# ---------------------------------------------------------------- what the world sees


def test_a_step_prints_once_and_the_whole_batch(tmp_path: Path) -> None:
    file = tmp_path / "out"
    stream = f"file://{file}"

    def step(x: tf.Tensor) -> Any:
        tf.print("rows", x, tf.shape(x), summarize=-1, output_stream=stream)
        tf.cond(
            tf.reduce_sum(x) > -1e9,
            lambda: tf.print("branch", tf.reduce_sum(tf.ones_like(x)), output_stream=stream),
            lambda: tf.print("never", output_stream=stream),
        )

        def turn(i: Any) -> Any:
            tf.print("turn", i, tf.reduce_max(x), output_stream=stream)
            return [i + 1]

        tf.while_loop(lambda i: i < 2, turn, [0])
        return tf.reduce_sum(x)

    x = np.arange(5, dtype="float32")[:, None]
    run_in_replicas(step, [x], [x])
    once = ["rows [[0]", " [1]", " [2]", " [3]", " [4]] [5 1]", "branch 5", "turn 0 4", "turn 1 4"]
    assert file.read_text().splitlines() == once * 2


def test_summaries_are_written_once_with_the_whole_value(tmp_path: Path) -> None:
    writer = tf.summary.create_file_writer(str(tmp_path))

    def step(x: tf.Tensor) -> Any:
        with writer.as_default(step=1):
            tf.summary.scalar("mean", tf.reduce_mean(x))
        return tf.reduce_sum(x)

    with tf.summary.record_if(True):
        x = np.arange(5, dtype="float32")[:, None]
        run_in_replicas(step, [x], [x])
    writer.flush()
    events = [e for f in glob.glob(f"{tmp_path}/*") for e in tf.compat.v1.train.summary_iterator(f)]
    values = [tf.make_ndarray(v.tensor) for e in events for v in e.summary.value]
    np.testing.assert_array_equal(values, [2.0, 2.0])


@pytest.mark.parametrize("function", [tf.numpy_function, tf.py_function])
def test_a_function_of_python_is_called_once_with_the_whole_batch(function: Any) -> None:
    seen: list[Any] = []

    def total(a: Any) -> Any:
        seen.append(np.array(a))
        return np.sum(np.array(a), 0)

    def called(value: tf.Tensor) -> tf.Tensor:
        return tf.ensure_shape(function(total, [value], tf.float32), [3])

    def step(x: tf.Tensor) -> Any:
        first = called(x)
        again = tf.while_loop(
            lambda i, a: i < 2, lambda i, a: (i + 1, a + called(x + a)), [0, first]
        )[1]
        return first, again, tf.cond(tf.reduce_sum(x) > 0, lambda: called(x), lambda: first)

    x = np.arange(15, dtype="float32").reshape(5, 3) + 1
    [result] = run_in_replicas(step, [x])
    assert len(seen) == 4
    np.testing.assert_array_equal(seen[0], x)
    assert_equal(result, StepInReplicas(step, [x]).serial([x]))


def test_a_queue_gets_one_element_for_each_step() -> None:
    queue = tf.queue.FIFOQueue(10, [tf.float32], [[]])

    def step(x: tf.Tensor) -> Any:
        queue.enqueue(tf.reduce_sum(x))
        return queue.size(), tf.reduce_mean(x)

    x = np.ones((5, 1), "float32")
    sizes = [int(result[0]) for result in run_in_replicas(step, [x], [x])]
    assert sizes == [1, 2]
    assert [float(queue.dequeue()), float(queue.dequeue())] == [5.0, 5.0]


def test_an_iterator_captured_by_a_step_advances_once() -> None:
    iterator = iter(tf.data.Dataset.range(10))

    def step(x: tf.Tensor) -> Any:
        return tf.cast(next(iterator), tf.float32) + x

    x = np.zeros((5, 1), "float32")
    results = run_in_replicas(step, [x], [x], [x])
    np.testing.assert_array_equal([r[:, 0] for r in results], [[0] * 5, [1] * 5, [2] * 5])


def test_the_time_is_asked_for_once() -> None:
    [result] = run_in_replicas(
        lambda x: x * 0.0 + tf.cast(tf.timestamp() * 1e3 % 1e6, tf.float32), [rows(6, 1)]
    )
    assert len(np.unique(result)) == 1


# ---------------------------------------------------------------- checks


def test_a_check_that_fails_for_one_row_fails_the_step() -> None:
    def step(x: tf.Tensor, k: tf.Tensor) -> Any:
        tf.debugging.assert_less(x, 5.0)
        with tf.control_dependencies([tf.debugging.assert_greater(x, -5.0)]):
            y = x * 2.0
        return (
            y,
            tf.reduce_sum(tf.debugging.check_numerics(x, "x")),
            tf.gather(tf.range(4.0), k),
            1 // (k - 9),
        )

    traced = assert_replicas(step, [rows(5, 3), np.arange(5) % 4])
    for row in range(5):
        for number, place in ((9.0, 0), (-9.0, 0), (np.nan, 0), (0.0, 7), (0.0, 9)):
            x, k = rows(5, 3), np.arange(5) % 4
            x[row, 1], k[row] = number, place or k[row]
            with pytest.raises(tf.errors.InvalidArgumentError):
                traced.in_replicas([x, k], 2)


def test_assertions_over_rows_exchange_nothing_and_come_before_what_waits_for_them() -> None:
    assigned, w = tf.Variable(0.0), tf.Variable(rows(3))

    def step(x: tf.Tensor) -> Any:
        def turn(i: Any, y: Any) -> Any:
            tf.debugging.assert_less(y, 9.0)
            return i + 1, y * 1.5

        _, y = tf.while_loop(lambda i, _: i < 2, turn, [0, x])
        y = tf.cond(assigned < 5.0, lambda: turn(0, y)[1], lambda: y)
        with tf.control_dependencies([tf.debugging.assert_less(y, 9.0, message="large")]):
            assigned.assign(tf.reduce_sum(w))
        return y

    checked = assert_replicas(step, [np.abs(rows(5, 3))], variables=[assigned])
    assert checked.exchange.blocked == []
    assert [[r.kind for r in asked] for asked in checked.exchange.flushes] == [["gather"]]
    assigned.assign(0.0)
    large = np.ones((5, 3), "float32")
    large[3] = 3.0  # no more than 9 until it has been multiplied three times
    with pytest.raises(tf.errors.InvalidArgumentError, match="large"):
        checked.in_replicas([large], 3)
    assert assigned.numpy() == 0.0


def test_each_replica_looks_for_what_is_no_number_in_its_own_rows() -> None:
    def step(x: tf.Tensor) -> Any:
        return tf.reduce_sum(tf.debugging.check_numerics(x, "no number"))

    checked = StepInReplicas(step, [rows(5, 3)])
    assert_equal(checked.in_replicas([rows(5, 3)], 3), checked.serial([rows(5, 3)]))
    assert on_rank_zero(checked) == []
    for row in range(5):
        wrong = rows(5, 3)
        wrong[row] = np.nan
        with pytest.raises(tf.errors.InvalidArgumentError, match="no number"):
            checked.in_replicas([wrong], 3)


def test_checks_of_totals_and_of_shapes_hold_for_the_whole_batch() -> None:
    def step(x: tf.Tensor) -> Any:
        tf.debugging.assert_equal(tf.shape(x)[0], 5)
        tf.debugging.assert_greater(tf.reduce_sum(x), 0.0)
        tf.debugging.assert_equal(tf.reduce_max(x), 1.0)
        return tf.ensure_shape(x, [5, None])

    x = np.array([1, -1, 1, -1, 1], "float32")[
        :, None
    ]  # the rows of one replica add up to less than 0
    traced = assert_replicas(step, [x])
    with pytest.raises(tf.errors.InvalidArgumentError):
        traced.in_replicas([-x], 2)


# ---------------------------------------------------------------- variables


def test_variables_are_read_and_assigned_in_the_order_of_the_trace() -> None:
    v, u, n = tf.Variable(rows(3)), tf.Variable(0.0), tf.Variable(0)

    def step(x: tf.Tensor) -> Any:
        before = v.read_value()
        v.assign_add(tf.reduce_sum(x, 0))
        between = v * 2.0
        u.assign(tf.reduce_mean(v))
        v.assign(tf.tanh(v) * u)
        after = v + tf.reduce_max(x, 0)
        u.assign_add(tf.reduce_sum(after * before))
        n.assign_add(tf.shape(x)[0])
        n.assign_add(tf.reduce_sum(tf.cast(x > 0, tf.int32)))
        return before, between, after, u.read_value(), u + 1.0, n + 0

    assert_replicas(step, *BATCHES, variables=[v, u, n])


def test_an_assignment_that_waits_for_a_total_comes_before_what_reads_it() -> None:
    v, u = tf.Variable(1.0), tf.Variable(1.0)

    def step(x: tf.Tensor) -> Any:
        u.assign(v * 2.0)  # needs no exchange
        v.assign(tf.reduce_max(x))  # waits
        with tf.control_dependencies([v.assign_add(1.0)]):
            fixed = tf.constant(3.0)
        with tf.control_dependencies([fixed]):
            read = v.read_value()
        u.assign_add(tf.reduce_sum(x - read))
        return u.read_value(), read, tf.reduce_sum(x * u)

    assert_replicas(step, *BATCHES, variables=[v, u])


def test_assignments_happen_once_in_loops_and_branches_and_to_parts() -> None:
    n, v, w = tf.Variable(0), tf.Variable(rows(3)), tf.Variable(rows(3, seed=1))

    def step(x: tf.Tensor) -> Any:
        n.assign_add(1)
        tf.cond(tf.reduce_sum(x) > 0, lambda: n.assign_add(10), lambda: n.assign_add(100))

        def turn(i: Any, a: Any) -> Any:
            n.assign_add(1000)
            tf.cond(
                tf.reduce_sum(a) > 0,
                lambda: v.assign_add(tf.reduce_mean(a, 0)),
                lambda: v.assign_sub(a[0]),
            )
            return i + 1, a - 0.1 * v

        a = tf.while_loop(lambda i, a: i < 3, turn, [0, x])[1]
        places = tf.range(tf.shape(x)[0]) % 3
        w.scatter_add(tf.IndexedSlices(x[:, 0], places))
        w.scatter_update(tf.IndexedSlices(x[:, 1], places))  # the last row of each place stays
        w.scatter_nd_add([[0], [2]], [1.0, 2.0])
        w[1:].assign(tf.reduce_max(x, 0)[1:])
        return a, n + 0, v + 0.0, w + 0.0

    assert_replicas(step, *BATCHES, variables=[n, v, w])


def test_a_bank_of_rows_of_earlier_batches() -> None:
    bank, place = tf.Variable(rows(8, 3)), tf.Variable(0)

    def step(x: tf.Tensor) -> Any:
        n = tf.shape(x)[0]
        similarity = x @ tf.transpose(bank)
        bank.scatter_update(tf.IndexedSlices(x, (tf.range(n) + place) % 8))
        place.assign((place + n) % 8)
        return similarity, bank + 0.0

    assert_replicas(step, *BATCHES, *BATCHES, variables=[bank, place])


def test_a_variable_that_grows_with_each_batch() -> None:
    kept = tf.Variable(np.zeros((0, 3), "float32"), shape=tf.TensorShape([None, 3]))

    def step(x: tf.Tensor) -> Any:
        kept.assign(tf.concat([kept, x], 0))
        return tf.reduce_sum(kept), tf.shape(kept)

    assert_replicas(step, *BATCHES, variables=[kept])


# ---------------------------------------------------------------- tables and datasets


def test_a_table_that_is_changed_and_asked_in_turn() -> None:
    def make() -> Any:
        table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)

        def step(x: tf.Tensor, key: tf.Tensor) -> Any:
            first = table.lookup(key)
            table.insert(key, tf.argmax(x, 1))
            then, size = table.lookup(key), table.size()
            table.remove(key[:1])
            return first, then, size, table.size(), table.lookup(key), table[key]

        return step

    key = np.array(["a", "b", "c", "a", "d"])
    batches = [[rows(5, 3), key], [rows(5, 3, seed=1), key[::-1]]]
    serial = StepInReplicas(make(), batches[0])
    expected = [serial.serial(batch) for batch in batches]
    assert_equal(run_in_replicas(make(), *batches, replicas=2), expected)


def test_constants_of_words_are_looked_up_and_name_a_summary(tmp_path: Path) -> None:
    table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, 7)
    writer = tf.summary.create_file_writer(str(tmp_path))

    def step(x: tf.Tensor) -> Any:
        with writer.as_default(step=table.size()):
            tf.summary.scalar("total", tf.reduce_sum(x))
        return table.lookup(tf.constant(["a", "b"])), x

    assert_replicas(step, *BATCHES)


@pytest.mark.parametrize("kind", ["draw", "loop over a dataset", "iterator"])
def test_what_changes_a_variable_or_iterator_runs_in_every_process(kind: str) -> None:
    generator, total = tf.random.Generator.from_seed(3), tf.Variable(0)
    numbers = tf.data.Dataset.range(5, output_type=tf.int32)
    iterator = iter(numbers)

    def step(x: tf.Tensor) -> Any:
        if kind == "draw":
            return generator.binomial([2], 5.0, 0.5) + tf.shape(x)
        if kind == "iterator":
            return iterator.get_next()
        for number in numbers:
            total.assign_add(number)
        return total.read_value()

    traced = trace(tf.autograph.to_graph(step), [tf.TensorSpec([None, 3])])
    x = rows(5, 3)
    second = build(
        traced, [Input((5, 3), Sharded(0))], Replicas(1, 1, 2), 5, lambda _: OneProcess()
    )
    expected = traced.concrete_function(x)
    after = [generator.state.numpy().copy(), total.numpy()]
    generator.reset_from_seed(3)
    total.assign(0)
    assert_equal(second(tf.constant(x[1::2])), tf.constant(1) if kind == "iterator" else expected)
    assert_equal([generator.state, total], after)


def test_a_dataset_made_of_the_batch_inside_the_step() -> None:
    def step(x: tf.Tensor) -> Any:
        rows_of = tf.data.Dataset.from_tensor_slices(x)
        counted = tf.data.Dataset.range(5).reduce(np.int64(0), lambda a, b: a + b)
        return rows_of.reduce(0.0, lambda a, b: 0.5 * a + tf.reduce_sum(b)), counted

    assert_replicas(step, *BATCHES)


# ---------------------------------------------------------------- draws


def test_a_generator_advances_once_and_draws_what_the_serial_run_draws() -> None:
    generator = tf.random.Generator.from_seed(3)

    def step(x: tf.Tensor) -> Any:
        shape = tf.shape(x)
        noise = generator.normal(shape)
        numbers = generator.uniform([4], maxval=9, dtype=tf.int32)
        seeds = generator.make_seeds(2)
        generator.skip(3)
        chosen = tf.cond(tf.reduce_sum(x) > 0, lambda: generator.normal(shape), lambda: x)
        walk = tf.while_loop(
            lambda i, a: i < 2, lambda i, a: (i + 1, a + generator.truncated_normal(shape)), [0, x]
        )[1]
        return (
            noise,
            numbers,
            seeds,
            chosen,
            walk,
            generator.uniform([shape[0], 1]),
            generator.state.read_value(),
        )

    assert_replicas(step, *BATCHES, variables=[generator.state], rtol=0)


def test_draws_of_hidden_state_differ_between_calls_and_are_the_same_in_all_replicas() -> None:
    def step(x: tf.Tensor) -> Any:
        inner = tf.function(lambda y: tf.random.normal(tf.shape(y)), autograph=False)
        noise_12 = tf.random.normal(tf.shape(x), name="noise_12")
        noise_21 = tf.random.normal(tf.shape(x), name="noise_21")
        return (
            inner(x),
            inner(x),
            noise_12,
            noise_21,
            tf.random.uniform([8]),
            tf.random.uniform([8]),
        )

    draws = [
        d.numpy() for result in run_in_replicas(step, [rows(8, 3)], [rows(8, 3)]) for d in result
    ]
    for i, first in enumerate(draws):
        for second in draws[:i]:
            assert first.shape != second.shape or not np.array_equal(first, second)


def test_draws_by_the_operation_seed_are_those_of_the_serial_run() -> None:
    def make() -> Any:
        tf.random.set_seed(5)

        def step(x: tf.Tensor) -> Any:
            return (
                x * tf.random.normal(tf.shape(x), seed=1),
                tf.random.shuffle(x, seed=2),
                tf.random.uniform([3], seed=3),
            )

        return step

    batches: Sequence[Any] = [[rows(6, 3)], [rows(6, 3, seed=1)]]
    expected = [StepInReplicas(make(), batches[0]).serial(batches[0])]
    step = StepInReplicas(make(), batches[0])
    assert_equal(step.in_replicas(batches[0], 3), expected[0])


_DRAWS: dict[str, Any] = {
    "uniform": lambda shape, dtype: tf.random.uniform(shape, dtype=dtype, seed=1),
    "normal": lambda shape, dtype: tf.random.normal(shape, dtype=dtype, seed=2),
    "truncated": lambda shape, dtype: tf.random.truncated_normal(shape, dtype=dtype, seed=3),
}
_SEEDED = [
    pytest.param(lambda shape, draw=draw, dtype=dtype: draw(shape, dtype), id=f"{name} {dtype}")
    for name, draw in _DRAWS.items()
    for dtype in ("float16", "bfloat16", "float32", "float64")
] + [
    pytest.param(
        lambda shape, dtype=dtype: tf.random.uniform(shape, -3, 99, dtype, seed=4),
        id=f"uniform {dtype}",
    )
    for dtype in ("int32", "int64")
]


@pytest.mark.parametrize("global_seed", [None, -5])
@pytest.mark.parametrize("draw", _SEEDED)
def test_seeded_draws_go_on_in_batches_of_other_sizes_as_in_the_serial_run(
    draw: Any, global_seed: int | None
) -> None:
    tf.random.set_seed(global_seed)
    inner = tf.function(lambda x: draw(tf.shape(x)), autograph=False)
    step = StepInReplicas(
        lambda x: (draw(tf.shape(x)), draw([2]), inner(x), inner(x)), [rows(5, 3)]
    )
    batches: Sequence[Any] = [[rows(n, 3)] for n in (5, 3, 5, 5, 3)]
    expected = [step.serial(batch) for batch in batches]
    assert_equal([step.in_replicas(batch, 2) for batch in batches], expected, rtol=0)


def test_seeded_draws_in_loops_are_those_of_the_serial_run() -> None:
    def step(x: tf.Tensor) -> Any:
        return tf.while_loop(
            lambda i, x: i < 3,
            lambda i, x: (i + 1, x + tf.random.normal(tf.shape(x), seed=1)),
            (0, x),
        )[1]

    assert_replicas(step, [rows(5, 3)], replicas=(2,))


def test_random_operations_of_every_kind_run_on_rank_zero() -> None:
    weights, offsets = tf.Variable(rows(20, 3)), tf.Variable(rows(20, seed=1))

    def step(x: tf.Tensor, label: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.nn.sampled_softmax_loss(weights, offsets, label[:, None], x, 5, 20)
            loss = tf.reduce_mean(loss)
        gradients = [tf.convert_to_tensor(g) for g in tape.gradient(loss, [weights, offsets])]
        boxes = tf.image.sample_distorted_bounding_box(
            [9, 9, 3], tf.zeros([1, 1, 4]), min_object_covered=0.1
        )
        return (
            [tf.shape(g) for g in gradients],
            tf.shape(tf.random.gamma([], tf.exp(x))),
            tf.shape(tf.random.categorical(x, 2)),
            tf.shape(tf.random.poisson([2], tf.exp(x))),
            tf.shape(boxes[0]),
            tf.timestamp() > 0,
            tf.shape(tf.numpy_function(lambda a: a + np.random.normal(), [x], tf.float32)),
            tf.switch_case(
                tf.cast(x[0, 0] > 0, tf.int32),
                [lambda: tf.random.normal([3]), lambda: tf.random.uniform([3])],
            )
            > -99,
        )

    traced = assert_replicas(step, [rows(6, 3), np.arange(6)], [-rows(6, 3), np.arange(6)])
    assert on_rank_zero(traced) == [
        "LogUniformCandidateSampler", "Multinomial", "PyFunc", "RandomGamma", "RandomPoissonV2",
        "RandomStandardNormal", "RandomUniform", "SampleDistortedBoundingBoxV2", "Timestamp",
    ]  # fmt: skip


def test_what_is_known_is_computed_when_the_step_is_built_but_never_what_may_change() -> None:
    def step(x: tf.Tensor) -> Any:
        return tf.random.uniform([2]), tf.random.stateless_uniform([2], [1, 2]), tf.timestamp(), x

    first, second = run_in_replicas(step, [rows(4, 1)], [rows(4, 1)])
    assert not np.array_equal(first[0], second[0])
    np.testing.assert_array_equal(first[1], second[1])
    assert first[2] < second[2]
