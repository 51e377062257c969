"""GradientReducer: sums of the tree, in any order, from any thread, over and over."""

from collections.abc import Callable

import pytest
from reducer_checks import (
    check_arrays_live_as_long_as_the_reducer_needs_them,
    check_mistakes_with_out,
    check_reuse_for_many_steps,
    check_scale,
    check_scale_zero_hides_nan,
    check_sums,
    check_sums_into_arrays,
    check_threads_in_random_orders,
    check_two_reducers_in_opposite_orders,
    check_wrong_order_of_calls,
)

from tnt_comm.testing import RankPool

Pools = Callable[[int], RankPool]


@pytest.mark.parametrize("threshold_bytes", [0, 400, 32768, 1 << 30])
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_sums_follow_the_tree_however_tensors_are_fused(
    pool_of: Pools, size: int, threshold_bytes: int
) -> None:
    pool_of(size).run(check_sums, threshold_bytes, ("float32",))


@pytest.mark.parametrize("size", [2, 3])
def test_mixed_dtypes_use_buckets_of_their_own(pool_of: Pools, size: int) -> None:
    dtypes = ("float32", "bfloat16", "float64", "float16", "int32")
    pool_of(size).run(check_sums, 32768, dtypes)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_buckets_are_reused_for_many_steps(pool_of: Pools, size: int) -> None:
    pool_of(size).run(check_reuse_for_many_steps)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_threads_may_start_tensors_in_different_orders(pool_of: Pools, size: int) -> None:
    pool_of(size).run(check_threads_in_random_orders)


@pytest.mark.parametrize("threshold_bytes", [0, 32768, 1 << 30])
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_sums_in_place_have_the_bits_of_copied_ones(
    pool_of: Pools, size: int, threshold_bytes: int
) -> None:
    pool_of(size).run(check_sums_into_arrays, threshold_bytes)


def test_an_out_that_does_not_fit_is_refused(pool_of: Pools) -> None:
    pool_of(2).run(check_mistakes_with_out)


@pytest.mark.parametrize("size", [1, 2])
def test_arrays_live_as_long_as_the_reducer_needs_them(pool_of: Pools, size: int) -> None:
    pool_of(size).run(check_arrays_live_as_long_as_the_reducer_needs_them)


def test_scale_is_applied_before_the_sum(pool_of: Pools) -> None:
    pool_of(3).run(check_scale)


def test_scale_zero_contributes_zeros_even_for_nan(pool_of: Pools) -> None:
    pool_of(2).run(check_scale_zero_hides_nan)


def test_wrong_order_of_calls_names_the_tensor(pool_of: Pools) -> None:
    pool_of(2).run(check_wrong_order_of_calls)


def test_two_reducers_do_not_wait_for_each_other(pool_of: Pools) -> None:
    pool_of(2).run(check_two_reducers_in_opposite_orders)
