"""Steps a partition by rows could get wrong in silence: shapes, totals, equations, few rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from cases import cases
from step_cases import loss_of
from step_replicas import assert_replicas, gathered


def rows(*sizes: int, seed: int = 0) -> Any:
    return np.random.default_rng([seed, *sizes]).normal(size=sizes).astype("float32")


def with_gradient(function: Any, weights: tf.Variable) -> Any:
    """The step that moves weights along the gradient of all that a function returns."""

    def step(*batch: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            for tensor in batch:
                tape.watch(tensor)
            values = function(weights, *batch)
            loss = loss_of(values)
        gradients = tape.gradient(loss, [weights, *batch])
        weights.assign_sub(0.1 * gradients[0])
        return values, loss, gradients

    return step


def test_a_shape_that_is_a_total_is_formed_before_it_is_used() -> None:
    def step(x: tf.Tensor) -> Any:
        count = tf.reduce_sum(tf.cast(x > -9.0, tf.int32), 0)  # [N]
        numbers = tf.range(30)
        return (
            tf.reduce_sum(tf.broadcast_to([2.0], count)),
            tf.reshape(tf.range(2 * count[0]), tf.concat([count, [2]], 0)),
            tf.zeros(count),
            tf.strided_slice(numbers, [0], count),
            tf.slice(numbers, [2], count),
            tf.split(numbers, tf.concat([count, 30 - count], 0))[0],
            tf.pad(tf.ones([2]), [[0, count[0]]]),
            tf.tile(numbers[:3], count),
            tf.one_hot(numbers[:3], count[0]),
            tf.linspace(0.0, 1.0, count[0]),
            tf.eye(count[0]),
        )

    assert_replicas(step, [rows(5, 1)], [rows(7, 1)], rtol=0)


def test_axes_and_positions_that_depend_on_the_batch_are_the_same_in_all_replicas() -> None:
    def step(x: tf.Tensor, k: tf.Tensor) -> Any:
        axis = tf.reduce_max(k)
        return (
            tf.reduce_sum(x, axis),
            tf.gather(x, axis, axis=1),
            tf.concat([x, x], axis),
            tf.roll(x, axis, axis),
            tf.reverse(x, [axis]),
            tf.cumsum(x, axis),
            tf.math.top_k(x, axis).values,
            x[:, axis],
            tf.gather(tf.constant([1.0, 2.0, 3.0]), k),
        )

    batches = [[rows(n, 3), np.arange(n, dtype="int32") % 2] for n in (5, 3)]
    assert_replicas(step, *batches)


def test_an_axis_of_size_one_is_not_the_axis_of_rows_in_an_equation() -> None:
    weights = tf.Variable([[1.0, 2.0, 3.0]])

    def function(w: Any, x: Any) -> Any:
        largest = tf.reduce_max(x, 0, keepdims=True)
        return (
            tf.einsum("...i,...i->...i", x, largest),
            tf.einsum("...i,...i->...i", x, w),
            tf.einsum("...i,...i->...", largest, x),
            tf.einsum("bi,...i->b...", x, w),
            tf.matmul(x[:, None], x[:, :, None]),
        )

    # A replica of one row has an axis of size one where the batch has none.
    batches = [[rows(count, 3)] for count in (5, 4)]
    assert_replicas(with_gradient(function, weights), *batches, replicas=(3,), variables=[weights])


def test_an_equation_that_puts_rows_on_a_diagonal_is_computed_of_all_rows() -> None:
    def step(x: tf.Tensor) -> Any:
        diagonal = tf.raw_ops.Einsum(inputs=[x[:, 0]], equation="i->ii")
        return diagonal, tf.reduce_mean(diagonal)

    traced = assert_replicas(step, [rows(5, 3)], [rows(6, 3)])
    assert gathered(traced) == ["Einsum"]


def test_the_diagonal_of_a_gram_matrix_has_the_gradient_of_the_whole_one() -> None:
    weights = tf.Variable(rows(3, 3))
    step = with_gradient(lambda w, x: tf.einsum("ii->i", x @ w @ tf.transpose(x)), weights)
    assert_replicas(step, [rows(5, 3)], [rows(6, 3)], variables=[weights])


INF = np.float32(np.inf)
TOTALS_THAT_CANCEL = [[1, 0], [1, -1], [6, -6, 4, -3], [6e4, -6e4, 6e4, -6e4], [0, 0, 0]]


@pytest.mark.parametrize("partial_sums", TOTALS_THAT_CANCEL, ids=str)
def test_a_total_of_finite_rows_is_formed_before_what_is_not_linear_in_it(
    partial_sums: list[float],
) -> None:
    def step(x: tf.Tensor) -> Any:
        total = tf.reduce_sum(x, 0)
        return (
            total * INF,
            total / 0.0,
            tf.reduce_mean(x, 0) / 0.0,
            tf.math.multiply_no_nan(INF, total),
            tf.math.divide_no_nan(total, 0.0),
            tf.cast(total, tf.float16),
            tf.cast(tf.cast(total, tf.float64) * 1e36, tf.float32),
            tf.math.is_finite(total / 0.0),
            total * 1e33,
            tf.where(total > 0, total, -1.0),
            tf.abs(total),
            tf.cast(total, tf.int32),
            tf.maximum(total, 0.5),
            total * total,
            tf.round(total / 3.0),
        )

    batch = [np.array(partial_sums, "float32")[:, None]]
    assert_replicas(step, batch, replicas=(2,) if len(partial_sums) == 2 else (2, 3), rtol=1e-6)


@pytest.mark.parametrize(
    "kind", ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"]
)
def test_whole_numbers_of_every_type_are_reduced_as_they_are(kind: str) -> None:
    def step(x: tf.Tensor) -> Any:
        total = tf.reduce_sum(x)
        return (
            tf.reduce_max(x),
            tf.reduce_min(x),
            total,
            tf.reduce_prod(x),
            total // 3,
            tf.reduce_mean(x),
            total * 2,
        )

    limits = np.iinfo(kind)
    extremes = np.array([limits.max, 5, limits.min, limits.max // 2 + 2, 3], kind)
    assert_replicas(step, [extremes], rtol=0)


@pytest.mark.parametrize(
    "kind", ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"]
)
def test_extremes_and_totals_of_every_kind_of_number(kind: str) -> None:
    def step(x: tf.Tensor) -> Any:
        x = tf.cast(x, kind)
        sums = tf.reduce_sum(x, 0), tf.reduce_mean(x, 0), tf.reduce_prod(x, 0)
        return sums if x.dtype.is_complex else (*sums, tf.reduce_max(x, 0), tf.reduce_min(x, 0))

    coarse = kind in ("float16", "bfloat16")
    results = [rows(5, 3), rows(4, 3)]
    assert_replicas(step, *[[r] for r in results], rtol=2e-2 if coarse else 2e-5)


def test_extremes_of_rows_that_are_not_numbers() -> None:
    def step(x: tf.Tensor) -> Any:
        return (
            tf.reduce_max(x, 0),
            tf.reduce_min(x, 0),
            tf.reduce_any(tf.math.is_nan(x)),
            tf.reduce_sum(x, 0),
        )

    for row in range(5):
        x = np.zeros((5, 4), "float32")
        x[row] = [np.nan, np.inf, -np.inf, -0.0]
        assert_replicas(step, [x], rtol=0)


def test_fused_batch_normalization_of_a_whole_batch_forward_and_backward() -> None:
    scale, offset = tf.Variable(rows(3)), tf.Variable(rows(3, seed=1))

    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y, mean, variance = tf.compat.v1.nn.fused_batch_norm(x, scale, offset)
            loss = tf.reduce_sum(y**3) + tf.reduce_sum(tf.stop_gradient(mean * variance))
        gradients = tape.gradient(loss, [x, scale, offset])
        scale.assign_sub(gradients[1])
        return loss, y, mean, variance, gradients

    batches = [[rows(5, 4, 4, 3)], [rows(6, 4, 4, 3)]]
    assert_replicas(step, *batches, variables=[scale, offset], rtol=2e-4)


def test_a_sum_of_totals_and_of_what_all_replicas_have() -> None:
    weights = tf.Variable(rows(3))
    step = with_gradient(
        lambda w, x: tf.add_n([tf.reduce_sum(2 * x * w, 0), tf.reduce_sum(x**2, 0), w + 1]), weights
    )
    assert_replicas(step, [rows(5, 3)], [rows(4, 3)], variables=[weights])


def test_a_batch_repeated_no_time_is_empty() -> None:
    assert_replicas(
        lambda x: (
            tf.tile(x, [0, 1]),
            tf.tile(x, [1, 0]),
            tf.repeat(x, 0, 0),
            x[:0],
            tf.concat([x[:0], x], 0),
        ),
        [rows(5, 3)],
        rtol=0,
    )


def test_truths_and_strings_are_scattered_though_they_have_no_sums() -> None:
    def step(x: tf.Tensor) -> Any:
        slot = tf.cast(x[:, :1] > 0, tf.int32)
        return (
            tf.scatter_nd(slot, tf.ones_like(x[:, 0], tf.bool), [4]),
            tf.scatter_nd(tf.range(tf.shape(x)[0])[:, None], tf.strings.as_string(x[:, 0]), [8]),
            tf.strings.reduce_join(tf.strings.as_string(x[:, 0])),
        )

    assert_replicas(step, [rows(5, 3)], [rows(4, 3)], rtol=0)


@cases("num_rows", [0, 2], thorough=[1, 3, 5])
def test_batches_with_as_many_rows_as_replicas_and_with_fewer(num_rows: int) -> None:
    weights = tf.Variable(rows(3, 3))

    def function(w: Any, x: Any) -> Any:
        y = x @ w
        total = tf.while_loop(
            lambda i, a: i < 3, lambda i, a: (i + 1, a + tf.reduce_sum(y, 0)), [0, tf.zeros(3)]
        )[1]
        return tf.reduce_mean(y + 1.0, 0), y, tf.squeeze(y[:, None], 1), total, y @ tf.transpose(y)

    step = with_gradient(function, weights)
    replicas = {0: (2,), 1: (1, 2), 2: (2, 3), 3: (2, 3), 5: (5,)}[num_rows]
    assert_replicas(step, [rows(num_rows, 3)], replicas=replicas, variables=[weights])


@pytest.mark.parametrize("static", [False, True])
def test_rows_whose_number_is_that_of_every_other_axis(static: bool) -> None:
    weights = tf.Variable(rows(3, 3))

    def function(w: Any, x: Any) -> Any:
        y = tf.einsum("nab,bc->nac", x, w)
        return (
            tf.transpose(y, [1, 0, 2]),
            tf.reduce_sum(y, 1) + tf.reduce_sum(y, 2),
            y[:, 0] @ w,
            w @ y[:, 0],
            y * w,
            y + w[:, None],
            tf.reshape(y, [3, 9]),
            tf.reshape(tf.transpose(y, [1, 0, 2]), [9, 3]),
            tf.linalg.matvec(w, y[:, 1]),
            tf.concat([y, w[None] * tf.ones([3, 1, 1])], 0),
            tf.stack([y[:, 0], w]),
        )

    step = with_gradient(function, weights)
    assert_replicas(step, [rows(3, 3, 3)], replicas=(2,), static=static, variables=[weights])


def test_values_that_are_computed_row_by_row_have_the_bits_of_the_serial_run() -> None:
    weights = tf.Variable(rows(4))

    def step(x: tf.Tensor) -> Any:
        y = tf.nn.gelu(x * weights) / 3.0
        return (
            y,
            tf.nn.softmax(y),
            tf.sort(y, 0),
            tf.transpose(y)[1],
            tf.reduce_max(y, 0),
            tf.gather(y, tf.argsort(x[:, 0])),
            tf.cumsum(y, 0),
            tf.concat([y, y[1:]], 0),
            y[:, None] - y[None],
            tf.random.stateless_normal(tf.shape(y), [1, 2]) * y,
        )

    assert_replicas(step, [rows(7, 4)], replicas=(3,), rtol=0)


def test_a_replicated_value_is_read_whole_and_as_rows_and_as_a_total() -> None:
    weights = tf.Variable(rows(4, 3))

    def function(w: Any, x: Any) -> Any:
        n = tf.shape(x)[0]
        spread = tf.broadcast_to(tf.sin(w[0]), [n, 3]) / tf.cast(n, tf.float32)
        mixed = tf.where(tf.reduce_sum(x) > 0, tf.reduce_sum(x @ w, 0), w[1])
        return (
            spread + x @ w,
            tf.cumsum(spread, 0),
            tf.reduce_sum(spread, 0),
            mixed + tf.reduce_sum(x @ w, 0),
            tf.reduce_max(spread),
        )

    step = with_gradient(function, weights)
    assert_replicas(step, [rows(5, 4)], [rows(4, 4)], variables=[weights])


def test_arguments_without_rows_are_the_same_in_all_replicas() -> None:
    weights = tf.Variable(rows(3, 3))

    def function(w: Any, x: Any, y: Any) -> Any:
        return x @ w + y[0], x @ tf.transpose(y), tf.reduce_mean(y @ w)

    # As many rows as the batch, but none of it.
    batch = [rows(5, 3), rows(5, 3, seed=1)]
    assert_replicas(
        with_gradient(function, weights), batch, rows=[True, False], variables=[weights]
    )


def test_values_that_are_returned_twice_or_not_computed_at_all() -> None:
    constant = tf.constant([1.0, 2.0])

    def step(x: tf.Tensor) -> Any:
        total = tf.reduce_sum(x, 0)
        return {
            "x": x,
            "again": (x, x + 0.0),
            "total": [total, total],
            "fixed": constant,
            "none": None,
            "number": 3,
        }

    traced = assert_replicas(step, [rows(5, 2)], rtol=1e-6)
    assert traced.in_replicas([rows(5, 2)], 2)["none"] is None
