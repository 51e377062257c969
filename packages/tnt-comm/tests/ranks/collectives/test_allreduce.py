"""Allreduce gives the bits of the documented summation tree, for every size and dtype."""

from collections.abc import Callable

import pytest
from allreduce_checks import (
    check_awkward_counts,
    check_every_dtype_and_operation,
    check_in_place_and_shapes,
    check_many_in_flight,
    check_nan_and_infinity,
    check_strided_input_and_overlapping_output,
)
from cases import cases

from tnt_comm.testing import RankPool, run_ranks

Pools = Callable[[int], RankPool]


@cases("size", [1, 2, 3, 8], thorough=[4, 5, 6, 7])
def test_every_dtype_and_operation_follows_the_tree(pool_of: Pools, size: int) -> None:
    pool_of(size).run(check_every_dtype_and_operation)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int64", "uint8"])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 8])
def test_awkward_counts_follow_the_tree(pool_of: Pools, size: int, dtype: str) -> None:
    pool_of(size).run(check_awkward_counts, dtype)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_in_place_and_every_shape(pool_of: Pools, size: int) -> None:
    pool_of(size).run(check_in_place_and_shapes)


def test_strided_inputs_and_overlapping_outputs_are_safe(pool_of: Pools) -> None:
    pool_of(2).run(check_strided_input_and_overlapping_output)


@pytest.mark.parametrize("size", [2, 3])
def test_nan_and_infinity_reach_all_ranks(pool_of: Pools, size: int) -> None:
    pool_of(size).run(check_nan_and_infinity)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_many_operations_in_flight(pool_of: Pools, size: int) -> None:
    pool_of(size).run(check_many_in_flight)


@pytest.mark.thorough  # eight are in every run
def test_sixteen_ranks_on_one_host() -> None:
    run_ranks(check_every_dtype_and_operation, 16, timeout_s=110, env={"TNT_TIMEOUT_S": "100"})
