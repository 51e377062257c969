"""All collectives but allreduce, and groups of some ranks."""

from collections.abc import Callable

import pytest
from collective_checks import (
    check_allgather,
    check_alltoall_and_scatter,
    check_broadcast,
    check_gather,
    check_groups_of_some_ranks,
    check_independent_groups_in_opposite_orders,
    check_reduce_scatter,
    check_usage_errors_send_nothing,
    latest_arrival_and_earliest_return,
)

from tnt_comm.testing import RankPool

Pools = Callable[[int], RankPool]


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_broadcast_from_every_root(pool_of: Pools, size: int) -> None:
    pool_of(size).run(check_broadcast)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_allgather_of_unequal_blocks(pool_of: Pools, size: int) -> None:
    pool_of(size).run(check_allgather)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_reduce_scatter_gives_the_parts_of_array_split(pool_of: Pools, size: int) -> None:
    pool_of(size).run(check_reduce_scatter)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_alltoall_and_scatter_give_the_parts_of_array_split(pool_of: Pools, size: int) -> None:
    pool_of(size).run(check_alltoall_and_scatter)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_gather_gives_the_root_alone_unequal_blocks(pool_of: Pools, size: int) -> None:
    pool_of(size).run(check_gather)


def test_nobody_leaves_a_barrier_before_all_have_arrived(pool_of: Pools) -> None:
    times = pool_of(4).run(latest_arrival_and_earliest_return)
    assert max(arrived for arrived, _ in times) <= min(left for _, left in times)


def test_groups_of_some_ranks(pool_of: Pools) -> None:
    pool_of(4).run(check_groups_of_some_ranks)


def test_groups_are_independent_of_each_other(pool_of: Pools) -> None:
    pool_of(2).run(check_independent_groups_in_opposite_orders)


def test_wrong_arguments_are_refused_before_anything_is_sent(pool_of: Pools) -> None:
    pool_of(2).run(check_usage_errors_send_nothing)
