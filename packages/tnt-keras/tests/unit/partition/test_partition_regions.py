"""Local regions: functions that see a replica's rows as if they were the whole batch.

Expected values come from the same function, applied by hand to the rows of each replica.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from cases import cases
from step_cases import loss_of
from step_replicas import StepInReplicas, all_steps, assert_equal, assert_replicas

from tnt_keras.partition import PartitionError, local_region
from tnt_keras.partition.plan import Region

Function = Callable[..., Any]
EPSILON = 1e-3


def rows(*sizes: int, seed: int = 0) -> Any:
    return np.random.default_rng([seed, *sizes]).normal(size=sizes).astype("float32")


def normalized(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Rows normalised by their own moments, and these."""
    mean, variance = tf.nn.moments(x, [0])
    return (
        (x - mean) * tf.math.rsqrt(variance + EPSILON),
        tf.stop_gradient(mean),
        tf.stop_gradient(variance),
    )


def by_hand(function: Function, replicas: int, views: int = 1, axis: int = 0) -> Function:
    """Apply a function to the rows of each replica, and put together what it returns.

    Args:
        function: Its first argument and its first result have rows.
        replicas: How many.
        views: How often the batch stands on the axis.
        axis: Of the rows.
    """

    def applied(x: tf.Tensor, *others: tf.Tensor) -> tuple[tf.Tensor, ...]:
        size = tf.shape(x)[axis]
        num_rows = size // views
        of_replicas, places, weights = [], [], []
        for replica in range(replicas):
            mine = tf.range(size)[replica::replicas]
            mine = tf.concat(
                [v * num_rows + tf.range(num_rows)[replica::replicas] for v in range(views)], 0
            )
            places.append(mine)
            weights.append(tf.cast(tf.size(mine), tf.float32) / tf.cast(size, tf.float32))
            of_replicas.append(function(tf.gather(x, mine, axis=axis), *others))
        order = tf.argsort(tf.concat(places, 0))
        first = tf.gather(tf.concat([r[0] for r in of_replicas], axis), order, axis=axis)
        own = [
            tf.add_n(
                [weight * result[i] for weight, result in zip(weights, of_replicas, strict=True)]
            )
            for i in range(1, len(of_replicas[0]))
        ]
        return first, *own

    return applied


def assert_as_by_hand(
    step: Callable[[Function], Function],
    batch: Sequence[Any],
    *,
    variables: Sequence[tf.Variable] = (),
    replicas: Sequence[int] = (3,),
    function: Function = normalized,
    views: int = 1,
    axis: int = 0,
    num_regions: int | None = None,
) -> None:
    """Compare a step whose region is one with the step that has replicas by hand.

    Args:
        step: Makes the step, given the function that is the region.
        batch: Of the step.
        variables: That it assigns.
        replicas: Numbers of replicas.
        function: The region.
        views: As for `by_hand`.
        axis: As for `by_hand`.
        num_regions: How many there must be in the plan, with those of gradients.
    """
    before = [np.array(v.numpy()) for v in variables]
    for count in replicas:
        reference = tf.function(step(by_hand(function, count, views, axis)), autograph=False)
        expected = reference(*[tf.constant(b) for b in batch])
        after = [np.array(v.numpy()) for v in variables]
        traced = StepInReplicas(step(local_region(function)), batch, variables=variables)
        traced.restore(before)
        result = traced.in_replicas(batch, count)
        assert_equal(result, expected, 1e-4)
        assert_equal(traced.saved(), after, 1e-4)
        traced.restore(before)
        if num_regions is not None:
            assert count_regions(traced) == num_regions


def count_regions(traced: StepInReplicas) -> int:
    return sum(isinstance(s, Region) for b in traced.built.values() for s in all_steps(b.plan))


def training(loss: Function, weights: tf.Variable) -> Callable[[Function], Function]:
    """A step that trains weights by a loss of a region, of weights and of a batch."""

    def make(region: Function) -> Function:
        def step(*batch: tf.Tensor) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(batch)
                values = loss(region, weights, *batch)
                total = loss_of(values)
            gradients = tape.gradient(total, [weights, *batch], unconnected_gradients="zero")
            gradients = [tf.convert_to_tensor(g) for g in gradients]
            weights.assign_sub(0.1 * gradients[0])
            return values, total, gradients

        return step

    return make


LOSSES: dict[str, Function] = {
    "of each row": lambda region, w, x: region(x @ w)[0] ** 3,
    "of a total": lambda region, w, x: tf.reduce_mean(region(x @ w)[0] ** 3, 0),
    "of statistics": lambda region, w, x: region(x @ w),
    "of rows in order": lambda region, w, x: tf.cumsum(region(x @ w)[0] ** 2, 0),
    "of a band of the gram matrix": lambda region, w, x: (
        lambda y: tf.linalg.band_part(y @ tf.transpose(y), 1, 1)
    )(region(x @ w)[0]),
    "of extremes": lambda region, w, x: tf.reduce_max(region(x @ w)[0], 0),
    "of one row": lambda region, w, x: region(x @ w)[0][1],
    "of two layers": lambda region, w, x: region(tf.tanh(region(x @ w)[0]) @ w)[0],
    "of one function called twice": lambda region, w, x: (
        region(x @ w)[0] * region(tf.sin(x) @ w)[0],
        region(x)[1],
    ),
    "of itself": lambda region, w, x: (lambda y: tf.stop_gradient(y) * y)(region(x @ w)[0]),
}


@cases(
    "kind",
    ["of a total", "of statistics", "of extremes", "of one row", "of two layers"],
    thorough=LOSSES,
)
def test_a_region_and_its_gradient_see_the_rows_of_a_replica_in_a_loss(kind: str) -> None:
    weights = tf.Variable(rows(3, 3))
    assert_as_by_hand(training(LOSSES[kind], weights), [rows(7, 3)], variables=[weights])


def test_a_region_is_one_under_a_tape_and_without() -> None:
    weights = tf.Variable(rows(3, 3))
    step = training(LOSSES["of each row"], weights)
    assert_as_by_hand(step, [rows(7, 3)], variables=[weights], replicas=[2], num_regions=2)
    assert_as_by_hand(lambda region: lambda x: region(x), [rows(7, 3)], replicas=[2], num_regions=1)


VIEWS: dict[str, Function] = {
    "kept in order": lambda y, n: tf.cumsum(y**2, 0),
    "split": lambda y, n: (lambda a, b: a * b * b)(*tf.split(tf.tanh(y), 2)),
    "sliced": lambda y, n: y[:n] * y[n:],
    "reshaped": lambda y, n: tf.reshape(y, [2, n, 3]) ** 2 * tf.constant([1.0, 5.0])[:, None, None],
    "compared": lambda y, n: tf.linalg.band_part(y @ tf.transpose(y), 1, 1),
}


@cases("kind", ["split", "reshaped"], thorough=VIEWS)
def test_two_joined_views_of_a_batch_stay_in_their_places(kind: str) -> None:
    weights = tf.Variable(rows(3, 3))

    def loss(region: Function, w: Any, x: Any) -> Any:
        return VIEWS[kind](
            region(tf.concat([x @ w, 2.0 * tf.sin(x) @ w + 1.0], 0))[0], tf.shape(x)[0]
        )

    assert_as_by_hand(training(loss, weights), [rows(5, 3)], variables=[weights], views=2)


def test_rows_on_another_axis_are_rows_of_the_region() -> None:
    weights = tf.Variable(rows(3, 3))

    def over_columns(x: tf.Tensor) -> Any:
        mean = tf.reduce_mean(x, 1, keepdims=True)
        return x - mean, tf.stop_gradient(mean)

    def loss(region: Function, w: Any, x: Any) -> Any:
        y, mean = region(tf.transpose(x @ w))
        return y**3, tf.cumsum(tf.transpose(y), 0), mean

    assert_as_by_hand(
        training(loss, weights), [rows(7, 3)], variables=[weights], function=over_columns, axis=1
    )


def test_time_merged_into_rows_is_cut_by_rows() -> None:
    weights = tf.Variable(rows(3, 3))

    def merged(x: tf.Tensor) -> Any:
        flat, mean, variance = normalized(tf.reshape(x, [-1, 3]))
        return tf.reshape(flat, tf.shape(x)), mean, variance

    def in_replicas(region: Function, w: Any, x: Any) -> Any:
        y, mean, variance = region(tf.reshape(x @ w, [-1, 3]))
        return tf.reshape(y, tf.shape(x)) ** 3, mean, variance

    def by_rows(region: Function, w: Any, x: Any) -> Any:
        y, mean, variance = region(x @ w)
        return y**3, mean, variance

    batch = [rows(5, 4, 3)]
    before = np.array(weights.numpy())
    expected = tf.function(training(by_rows, weights)(by_hand(merged, 2)), autograph=False)(
        tf.constant(batch[0])
    )
    after = np.array(weights.numpy())
    traced = StepInReplicas(
        training(in_replicas, weights)(local_region(normalized)), batch, variables=[weights]
    )
    traced.restore([before])
    assert_equal(traced.in_replicas(batch, 2), expected, 1e-4)
    assert_equal(traced.saved(), [after], 1e-4)


def test_a_region_without_rows_is_an_ordinary_function() -> None:
    weights = tf.Variable(rows(4, 3))

    def function(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            y, mean, variance = local_region(normalized)(weights * 1.0)
            z, *_ = local_region(normalized)(
                tf.cast(tf.range(tf.shape(x)[0]) < 2, tf.float32)[:, None] * weights[:1]
            )
            loss = tf.reduce_sum(y**3) + tf.reduce_sum(z**3) + tf.reduce_sum(x)
        weights.assign_sub(tape.gradient(loss, weights))
        return loss, y, mean, variance, z

    assert_replicas(function, [rows(5, 3)], variables=[weights])


def test_weights_inside_a_region_get_the_sum_of_the_derivatives_of_all_replicas() -> None:
    weights = tf.Variable(rows(3, 3))

    def scaled(x: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor) -> Any:
        y, mean, variance = normalized(x)
        return y * scale[0] + tf.reduce_sum(offset), mean * 2.0, variance

    def loss(region: Function, w: Any, x: Any) -> Any:
        # A derivative that does not depend on rows is no total.
        return region(x, tf.convert_to_tensor(w), w[1]), tf.reduce_sum(w)

    assert_as_by_hand(training(loss, weights), [rows(7, 3)], variables=[weights], function=scaled)


def test_a_derivative_that_comes_back_through_own_statistics_is_weighted_by_rows() -> None:
    weights = tf.Variable(rows(3, 3))

    def centred(x: tf.Tensor) -> Any:
        mean = tf.reduce_mean(x, 0)
        return x - mean, mean

    def loss(region: Function, w: Any, x: Any) -> Any:
        y, mean = region(x @ w)
        return tf.reduce_mean(mean**2), y * mean

    assert_as_by_hand(training(loss, weights), [rows(7, 3)], variables=[weights], function=centred)


def test_a_derivative_may_be_what_the_region_returned() -> None:
    weights = tf.Variable(rows(3, 3))

    def step(region: Function) -> Function:
        def applied(x: tf.Tensor) -> Any:
            with tf.GradientTape() as tape:
                y, mean, variance = region(x @ weights)
            return tape.gradient(y, weights, output_gradients=y), mean, variance

        return applied

    assert_as_by_hand(step, [rows(7, 3)], variables=[weights])


def test_totals_and_extremes_are_formed_before_a_region_takes_them() -> None:
    weights = tf.Variable(rows(3, 3))

    def scaled(x: tf.Tensor, total: tf.Tensor, largest: tf.Tensor, flag: tf.Tensor) -> Any:
        return x * total + tf.cast(flag, tf.float32), tf.reduce_mean(x, 0) * largest

    def loss(region: Function, w: Any, x: Any) -> Any:
        y = x @ w
        return region(y, tf.reduce_sum(y, 0), tf.reduce_max(y, 0), tf.reduce_all(y < 0.5, 0))

    assert_as_by_hand(training(loss, weights), [rows(7, 3)], variables=[weights], function=scaled)


def test_a_region_on_own_statistics_of_another() -> None:
    def step(region: Function) -> Function:
        def applied(x: tf.Tensor) -> Any:
            y, mean, variance = region(x)
            return y, mean, tf.reduce_mean(mean), region(y + 1.0)[1], tf.stack([mean, variance])

        return applied

    assert_as_by_hand(step, [rows(7, 3)])


def test_moving_statistics_are_the_mean_over_replicas_weighted_by_rows() -> None:
    weights, moving = tf.Variable(rows(3, 3)), tf.Variable(tf.zeros(3))

    def make(region: Function) -> Function:
        def step(x: tf.Tensor) -> Any:
            with tf.GradientTape() as tape:
                y, mean, variance = region(x @ weights)
                moving.assign(0.9 * moving + 0.1 * mean)
                loss = tf.reduce_mean(y**3)
            weights.assign_sub(tape.gradient(loss, weights))
            return loss, moving + 0.0, variance

        return step

    assert_as_by_hand(make, [rows(7, 3)], variables=[weights, moving])


def test_own_statistics_in_branches_loops_and_lists() -> None:
    def step(region: Function) -> Function:
        def applied(x: tf.Tensor) -> Any:
            y, mean, variance = region(x)
            positive = tf.reduce_sum(x) > 0
            chosen = tf.cond(positive, lambda: mean, lambda: tf.ones(3))
            other = tf.cond(positive, lambda: tf.zeros(3), lambda: variance * 2.0)
            carried = tf.while_loop(
                lambda i, a, b: i < 3,
                lambda i, a, b: (i + 1, a + mean, b * 2.0),
                [0, tf.zeros(3), mean],
            )
            kept = tf.TensorArray(tf.float32, 2).write(0, mean).write(1, variance).stack()
            return y, chosen, other, carried, kept

        return applied

    assert_as_by_hand(step, [rows(7, 3)])
    assert_as_by_hand(step, [-rows(7, 3)])


IN_FUNCTIONS: dict[str, Function] = {
    "an inner function": lambda region, w, x: tf.function(
        lambda y: region(y)[0] * 2.0, autograph=False
    )(x @ w),
    "a function that is computed again": lambda region, w, x: tf.recompute_grad(
        lambda y: tf.sin(region(y)[0])
    )(x @ w),
}  # fmt: skip


@pytest.mark.parametrize("kind", IN_FUNCTIONS)
def test_a_region_in(kind: str) -> None:
    weights = tf.Variable(rows(3, 3))
    assert_as_by_hand(training(IN_FUNCTIONS[kind], weights), [rows(7, 3)], variables=[weights])


def test_a_loop_and_a_branch_in_a_region() -> None:
    weights = tf.Variable(rows(3, 3))

    def function(x: tf.Tensor) -> Any:
        total = tf.while_loop(
            lambda i, a: i < tf.shape(x)[0],
            lambda i, a: (i + 1, a + tf.sin(x[i])),
            [0, tf.zeros(3)],
        )[1]
        mean = total / tf.cast(tf.shape(x)[0], tf.float32)
        return tf.cond(
            tf.reduce_sum(x) > 0, lambda: x - mean, lambda: 2.0 * x * mean
        ), tf.stop_gradient(mean)

    def loss(region: Function, w: Any, x: Any) -> Any:
        return region(x @ w)

    assert_as_by_hand(training(loss, weights), [rows(7, 3)], variables=[weights], function=function)


def test_sizes_order_and_draws_in_a_region_are_those_of_a_replica() -> None:
    def function(x: tf.Tensor) -> Any:
        noise = tf.random.stateless_normal(tf.shape(x), [1, 2])
        first = tf.sort(x, 0)[0]
        return (
            x * first + noise,
            tf.cast(tf.size(x), tf.float32),
            first,
            tf.cast(tf.shape(x)[0], tf.float32),
        )

    assert_as_by_hand(lambda region: lambda x: region(x), [rows(7, 3)], function=function)


def test_fused_batch_normalization_in_a_region() -> None:
    weights = tf.Variable(rows(3, 3))

    def fused(x: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor) -> Any:
        y, mean, variance, *_ = tf.raw_ops.FusedBatchNormV3(
            x=x,
            scale=scale,
            offset=offset,
            mean=tf.zeros([0]),
            variance=tf.zeros([0]),
            is_training=True,
        )
        return y, tf.stop_gradient(mean), tf.stop_gradient(variance)

    def loss(region: Function, w: Any, x: Any) -> Any:
        return region(tf.einsum("nhwc,cd->nhwd", x, w), w[0], w[1] * 2.0)

    assert_as_by_hand(
        training(loss, weights), [rows(7, 2, 2, 3)], variables=[weights], function=fused
    )


def test_a_region_with_rows_that_were_gathered_beside_rows() -> None:
    """What has the whole batch's rows is cut, or the step is refused: never read as it is."""

    def masked(x: tf.Tensor, mask: tf.Tensor) -> Any:
        mean = tf.reduce_sum(x * mask, 0) / (tf.reduce_sum(mask) + 1.0)
        return (x - mean) * mask, tf.stop_gradient(mean)

    def by_replicas(x: tf.Tensor, replicas: int) -> Any:
        mask = tf.cast(tf.cumsum(x[:, :1], 0) > 0, tf.float32)
        parts = [masked(x[v::replicas], mask[v::replicas]) for v in range(replicas)]
        order = tf.argsort(
            tf.concat([tf.range(tf.shape(x)[0])[v::replicas] for v in range(replicas)], 0)
        )
        return tf.gather(tf.concat([p[0] for p in parts], 0), order)

    def step(x: tf.Tensor) -> Any:
        mask = tf.cast(tf.cumsum(x[:, :1], 0) > 0, tf.float32)
        return local_region(masked)(x, mask)[0]

    x = rows(6, 3)
    traced = StepInReplicas(step, [x])
    try:
        result = traced.in_replicas([x], 2)
    except PartitionError:
        return
    assert_equal(result, by_replicas(tf.constant(x), 2), 1e-4)
