"""One step for all numbers of rows: what depends on the number is computed when it runs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from cases import cases
from hypothesis import given
from hypothesis import strategies as st
from step_cases import in_groups, loss_of
from step_replicas import OneProcess, StepInReplicas, assert_replicas, assert_step, gathered
from test_partition_steps import STEPS
from test_partition_unknown_sizes import OfEachLength, assert_no_more_is_exchanged

from tnt_keras.partition import Input, Replicas, Sharded, build, local_region, trace
from tnt_keras.partition.value import ANY_ROWS, for_rows, is_symbolic, multiple, quotient

NUMBERS = (4, 5, 12, 3, 7, 6)
of_all_replicas = cases("replicas", [3], thorough=[1, 2, 4])


def rows(*sizes: int, seed: int = 0) -> Any:
    return np.random.default_rng([seed, *sizes]).normal(size=sizes).astype("float32")


def assert_for_all_numbers(
    function: Callable[..., Any], replicas: int = 3, numbers: Sequence[int] = NUMBERS
) -> StepInReplicas:
    """Build a step once, and compare it for several numbers of rows."""
    weights = tf.Variable(rows(3, 3))

    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            values = tf.nest.map_structure(tf.convert_to_tensor, function(weights, x))
            loss = loss_of(values)
        gradients = tape.gradient(loss, [weights, x], unconnected_gradients="zero")
        weights.assign_sub(0.02 * tf.convert_to_tensor(gradients[0]))
        return values, loss, gradients

    traced = StepInReplicas(step, [rows(4, 2, 3)], unknown={0: [0]}, variables=[weights])
    assert_step(traced, *([rows(n, 2, 3)] for n in numbers), replicas=[replicas], rtol=3e-5)
    larger = [n for n in numbers if n >= max(replicas, 2)]
    assert len(traced.built) == 1 + len(numbers) - len(larger)
    return traced


def number_of(x: tf.Tensor) -> Any:
    return tf.shape(x)[0]


def as_float(number: Any) -> Any:
    return tf.cast(number, "float32")


NUMBERS_OF_ROWS: dict[str, Callable[..., Any]] = {
    "minimum": lambda w, x: tf.nn.l2_loss(x @ w) * as_float(tf.minimum(number_of(x), 5)),
    "maximum": lambda w, x: tf.nn.l2_loss(x @ w) * as_float(tf.maximum(number_of(x), 5)),
    "both": lambda w, x: (
        x @ w * as_float(tf.minimum(2 * number_of(x), number_of(x))),
        x @ w * as_float(tf.maximum(2 * number_of(x), number_of(x))),
    ),
    "first rows": lambda w, x: tf.reduce_mean((x @ w)[:5]),
    "last rows": lambda w, x: (x @ w)[-5:] * 2.0,
    "half of the rows": lambda w, x: ((x @ w)[: number_of(x) // 2], (x @ w)[number_of(x) // 2 :]),
    "all rows in disguise": lambda w, x: (x @ w)[: number_of(x) // 2 * 2] * 2.0,
    "comparison": lambda w, x: as_float(number_of(x) > 5) * x @ w,
    "branch": lambda w, x: tf.cond(number_of(x) > 5, lambda: x @ w * 2.0, lambda: tf.sin(x @ w)),
    "remainders": lambda w, x: x @ w * as_float(
        number_of(x) % 4 + number_of(x) % 2 + 7 % number_of(x)
    ),
    "quotients": lambda w, x: x @ w + as_float(
        number_of(x) // 5 + 5 // number_of(x) + 6 * number_of(x) // 4 + 3 * number_of(x) // 2
    ),
    "multiples": lambda w, x: x @ w + as_float(
        4 * number_of(x) // number_of(x) + 6 * number_of(x) // 3 - number_of(x)
    ),
    "differences": lambda w, x: x @ w * as_float(number_of(x) - 3) + as_float(5 - number_of(x)),
    "padded to even": lambda w, x: tf.pad(x @ w, [[0, number_of(x) % 2], [0, 0], [0, 0]]),
    "padded to at least eight": lambda w, x: tf.pad(
        x @ w, [[0, tf.maximum(number_of(x), 8) - number_of(x)], [0, 0], [0, 0]]
    ),
    "one hot": lambda w, x: tf.one_hot(tf.minimum(number_of(x) - 1, 3), 5) * (x @ w)[:, 0, :1],
    "choice": lambda w, x: tf.where(number_of(x) == 5, tf.reduce_sum(x @ w), tf.reduce_mean(x)),
    "switch": lambda w, x: tf.switch_case(
        number_of(x) % 3, [lambda: x @ w, lambda: x + 0.0, lambda: -x]
    ),
    "squares": lambda w, x: x @ w / as_float(number_of(x) * number_of(x)),
    "sizes": lambda w, x: (
        x @ w, tf.size(x), tf.shape(x), tf.rank(x), tf.size(x) // 3, tf.shape(x)[::-1],
    ),
    "small types": lambda w, x: (
        x @ w * as_float(tf.cast(tf.cast(number_of(x) * 100, "int8"), "int32") // 100),
        x @ w * as_float(tf.cast(number_of(x) * 30000, "float16")),
    ),
    "positions": lambda w, x: x @ w + as_float(tf.range(number_of(x)))[:, None, None],
    "positions of all": lambda w, x: x @ w + as_float(tf.range(tf.size(x) // 3) % 7)[0],
    "difference from an axis": lambda w, x: x @ w * as_float(number_of(x) - tf.shape(x)[1]),
    "as long as rows or a single one": lambda w, x: x @ w + tf.ones(
        [tf.where(number_of(x) > 5, number_of(x), 1), 1, 1]
    ),
    "as long as rows or five": lambda w, x: (
        tf.ones([tf.maximum(number_of(x), 5), 3]) @ w, x @ w
    ),
    "mean of whole numbers": lambda w, x: (x @ w, tf.reduce_mean(tf.cast(10 * x, "int32"), 0)),
    "table of positions": lambda w, x: x @ w + tf.range(100.0)[: number_of(x), None, None],
    "rows of a short table": lambda w, x: (x @ w, tf.range(5.0)[: number_of(x), None]),
    "rows repeated": lambda w, x: (tf.repeat(x @ w, 2, 0), tf.tile(x @ w, [number_of(x), 1, 1])),
    "shared by rows": lambda w, x: tf.reduce_sum(x @ w, 0) / as_float(number_of(x)),
    "roots of the number": lambda w, x: x @ w / tf.sqrt(as_float(number_of(x))),
}  # fmt: skip


@of_all_replicas
@in_groups("function", NUMBERS_OF_ROWS)
def test_a_number_that_depends_on_the_rows_is_none_of_the_first_batch(
    function: Any, replicas: int
) -> None:
    assert_for_all_numbers(function, replicas)


SHAPES_OF_ROWS: dict[str, Callable[..., Any]] = {
    "merged": lambda w, x: tf.reshape(tf.reshape(x, [-1, 3]) @ w, tf.shape(x)),
    "flat": lambda w, x: (tf.reshape(x @ w, [-1]), tf.reshape(x @ w, [number_of(x) * 2, 3])),
    "transposed": lambda w, x: tf.reshape(tf.transpose(x @ w, [1, 0, 2]), [-1, 3]),
    "pairs": lambda w, x: tf.einsum("ntd,mtd->nmt", x @ w, x),
    "pairs made flat": lambda w, x: tf.reshape(tf.einsum("ntd,mtd->nm", x @ w, x), [-1]),
    "logarithms of pairs": lambda w, x: tf.nn.log_softmax(
        tf.reshape(x @ w, [-1, 6]) @ tf.transpose(tf.reshape(x, [-1, 6]))
        - 1e9 * tf.eye(number_of(x))
    ),
    "views": lambda w, x: (lambda y: (y, tf.split(y, 2)[1] * tf.split(y, 2)[0]))(
        tf.concat([x @ w, 2.0 * x @ w], 0)
    ),
    "centred": lambda w, x: x @ w - tf.reduce_mean(x @ w, [0, 1], keepdims=True),
    "totals": lambda w, x: (
        tf.reduce_sum(x @ w, 0), tf.reduce_mean(x @ w), tf.reduce_max(x @ w, 0),
        tf.math.reduce_std(x @ w, 0), tf.reduce_mean(tf.reduce_sum(x @ w, [1, 2])),
    ),
    "zeros become rows": lambda w, x: tf.zeros([number_of(x), 2, 3]) + x @ w,
    "draws": lambda w, x: x @ w * tf.random.stateless_normal(tf.shape(x), [1, 2]),
    "dropout": lambda w, x: tf.nn.experimental.stateless_dropout(x @ w, 0.3, [1, 2]),
    "draws of other shapes": lambda w, x: (
        (x @ w)[:, 0] * tf.random.stateless_uniform([number_of(x), 1], [3, 4]),
        tf.reshape(tf.random.stateless_uniform([number_of(x) * 6], [3, 4]), tf.shape(x)) * (x @ w),
        tf.transpose(tf.random.stateless_uniform([3, number_of(x)], [5, 6]))[:, None] * x,
    ),
    "sorted": lambda w, x: tf.sort(x @ w, 0),
    "cumulated": lambda w, x: tf.cumsum(x @ w, 0),
    "picked": lambda w, x: tf.gather(w, tf.cast(tf.abs(x[:, 0, 0]), "int32") % 3),
    "loop": lambda w, x: tf.while_loop(
        lambda i, a: i < 3, lambda i, a: (i + 1, tf.tanh(a @ w) + x), [0, tf.zeros_like(x)]
    )[1],
    "loop over rows": lambda w, x: tf.map_fn(lambda row: tf.tanh(row @ w), x),
    "branch of rows": lambda w, x: tf.cond(
        tf.reduce_sum(x) > 0, lambda: x @ w / as_float(number_of(x)), lambda: tf.sin(x)
    ),
    "loop that gathers": lambda w, x: tf.while_loop(
        lambda i, a: i < 2,
        lambda i, a: (i + 1, a @ w - tf.reduce_mean(a, 0) / as_float(number_of(a))),
        [0, x],
    )[1],
}  # fmt: skip


@of_all_replicas
@in_groups("function", SHAPES_OF_ROWS)
def test_values_of_any_number_of_rows_are_those_of_the_whole_batch(
    function: Any, replicas: int
) -> None:
    assert_for_all_numbers(function, replicas)


@cases(
    "name",
    [name for i, name in enumerate(STEPS) if i % 40 == 0],
    thorough=STEPS,
)
def test_a_step_for_any_number_of_rows_is_that_of_the_whole_batch(name: str) -> None:
    case = STEPS[name]
    weights = case.new_weights()
    batches = [case.batch(n, seed=n) for n in (4, 7, 3, 12)]
    unknown = {i: [0] for i in range(len(batches[0]))}
    step = StepInReplicas(
        case.train_step(weights), batches[0], unknown=unknown, variables=[weights]
    )
    for batch in batches:
        before = step.saved()
        try:
            step.serial(batch)
        except tf.errors.OpError:  # not a batch for this step
            continue
        finally:
            step.restore(before)
        assert_step(step, batch, replicas=[3], rtol=case.rtol)
    assert len(step.built) == 1


def test_draws_of_any_number_of_rows_have_the_bits_of_the_serial_run() -> None:
    def step(x: tf.Tensor) -> Any:
        return (
            tf.random.stateless_normal(tf.shape(x), [1, 2]) + 0.0 * x,
            tf.nn.experimental.stateless_dropout(x, 0.3, [1, 2]),
            tf.random.stateless_uniform([number_of(x)], [3, 4], 0, 10, tf.int32) * 2,
        )

    batches = [[rows(n, 5)] for n in (4, 7, 3, 12)]
    traced = assert_replicas(step, *batches, replicas=[1, 2, 3], unknown={0: [0]}, rtol=0)
    assert len(traced.built) == 3
    assert gathered(traced) == []


def test_a_rank_draws_rows_of_its_own_for_any_number_of_them() -> None:
    traced = trace(
        lambda x: tf.random.stateless_normal(tf.shape(x), [3, 5]) + 0.0 * x,
        [tf.TensorSpec([None, 3])],
    )
    inputs = [Input((None, 3), Sharded(0))]
    step = build(
        traced, inputs, Replicas(0, 1, 1), None, lambda _: OneProcess(), draws_own_rows=True
    )
    assert len(step.own_draws) == 1
    for n in (2, 7):
        drawn = step(tf.ones([n, 3]), tf.constant(n, tf.int64))
        np.testing.assert_array_equal(drawn, tf.random.stateless_normal([n, 3], [3, 5]))


def test_local_regions_take_the_statistics_of_any_number_of_rows() -> None:
    moving = tf.Variable(tf.zeros([3]))

    @local_region
    def normalised(x: Any) -> Any:
        mean, variance = tf.nn.moments(x, [0])
        return (x - mean) * tf.math.rsqrt(variance + 0.1), mean

    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y, mean = normalised(x)
            loss = tf.reduce_mean(tf.tanh(y) * x)
        moving.assign(0.9 * moving + 0.1 * mean)
        return loss, y, tape.gradient(loss, x)

    any_rows = StepInReplicas(step, [rows(4, 3)], unknown={0: [0]}, variables=[moving])
    known = StepInReplicas(step, [rows(4, 3)], variables=[moving])
    known.traced = any_rows.traced
    for n in (4, 7, 3, 12):
        before = any_rows.saved()
        expected = known.in_replicas([rows(n, 3)], 3), known.saved()
        any_rows.restore(before)
        result = any_rows.in_replicas([rows(n, 3)], 3), any_rows.saved()
        for a, b in zip(tf.nest.flatten(result), tf.nest.flatten(expected), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    assert len(any_rows.built) == 1


@cases(
    ("name", "knows_lengths"),
    [("images", True)],
    thorough=itertools.product(
        ("transformer", "images", "bidirectional", "convolutions"), (True, False)
    ),
)
def test_models_exchange_no_more_for_any_number_of_rows_than_for_known_ones(
    name: str, knows_lengths: bool
) -> None:
    keras.utils.set_random_seed(1)
    models = OfEachLength()
    model = getattr(models, name)()
    lengths = (12, 12, 12) if knows_lengths else (12, 7, 9)
    batches = [
        [part[:n] for part in models.batch(model, length)]
        for n, length in zip((5, 3, 4), lengths, strict=True)
    ]
    others = [] if knows_lengths else [1, 2] if name == "images" else [1]
    unknown = {0: [0, *others], 1: [0, *(others if np.ndim(batches[0][1]) > 1 else [])]}
    assert_no_more_is_exchanged(model, batches, unknown)


@given(st.integers(1, 9), st.integers(1, 9), st.integers(2, 50))
def test_multiples_of_the_rows_are_told_for_any_number(a: int, b: int, n: int) -> None:
    for number, value in (
        (a * ANY_ROWS, a * n),
        (a * ANY_ROWS + b * ANY_ROWS, (a + b) * n),
        (b, b),
    ):
        assert for_rows(multiple(number) or 0, n) == value
    for number in (a * ANY_ROWS + b, ANY_ROWS * ANY_ROWS, -a * ANY_ROWS, b - a * ANY_ROWS):
        assert multiple(number) is None
    divided = quotient(a * ANY_ROWS, b)
    assert divided is None or (is_symbolic(divided) and for_rows(divided, n) == a * n // b)
    assert quotient(a * ANY_ROWS, b * ANY_ROWS) == a * n // (b * n)
    assert quotient(a, b * ANY_ROWS) is None
    assert not any(map(is_symbolic, (np.iinfo("uint64").max, np.iinfo("int64").min)))
