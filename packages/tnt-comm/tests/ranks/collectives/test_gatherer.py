"""Gatherer: rows of all ranks, with unequal and empty parts, step after step."""

from collections.abc import Callable

import pytest
from gatherer_checks import check_independence, check_unequal_parts, check_wrong_order_of_calls

from tnt_comm.testing import RankPool

Pools = Callable[[int], RankPool]


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_unequal_and_empty_parts(pool_of: Pools, size: int) -> None:
    pool_of(size).run(check_unequal_parts)


@pytest.mark.parametrize("size", [2, 3])
def test_gatherers_are_independent_of_each_other(pool_of: Pools, size: int) -> None:
    pool_of(size).run(check_independence)


def test_wrong_order_of_calls_is_refused(pool_of: Pools) -> None:
    pool_of(2).run(check_wrong_order_of_calls)
