"""Lanes give the same bits at any number of ranks that shares them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import lenet5
import network_namespaces
import pytest
from engines import ENGINES
from lane_trainings import TRAININGS
from rank_pools import ENVIRONMENT

from tnt_comm.testing import RankPool, run_ranks


def _run(name: str) -> dict[str, str]:
    return TRAININGS[name]()


def _of_pool(pool: RankPool, name: str) -> dict[str, str]:
    first, *others = pool.run(_run, name)
    assert all(other == first for other in others)
    assert first
    return first


@pytest.mark.parametrize("name", TRAININGS)
def test_four_lanes_have_the_same_bits_on_one_two_and_four_ranks(
    name: str, pool_of: Callable[..., RankPool]
) -> None:
    of_one, *others = (_of_pool(pool_of(size, lanes=4), name) for size in (1, 2, 4))
    for of_several in others:
        assert of_several == of_one


@pytest.mark.thorough
@pytest.mark.parametrize("name", TRAININGS)
@pytest.mark.parametrize(("lanes", "sizes"), [(8, (2, 4, 8)), (6, (3, 6)), (3, (3,))])
def test_other_numbers_of_lanes_have_the_same_bits(
    name: str, lanes: int, sizes: tuple[int, ...], pool_of: Callable[..., RankPool]
) -> None:
    of_one = _of_pool(pool_of(1, lanes=lanes), name)
    for size in sizes:
        assert _of_pool(pool_of(size, lanes=lanes), name) == of_one


@pytest.fixture(scope="module")
def on_one_rank(preloaded: Any) -> Any:
    """Gives the results of a rank with so many lanes."""

    @functools.cache
    def results(lanes: int) -> Any:
        env = {**ENVIRONMENT, "TNT_LANES": str(lanes)}
        [result] = run_ranks(lenet5.train, 1, env=env, preloaded=preloaded)
        return result

    return results


@pytest.mark.parametrize("threshold", ["0", "1", "100000"])
def test_no_fusion_threshold_changes_a_bit(
    threshold: str, preloaded: Any, on_one_rank: Any
) -> None:
    env = {**ENVIRONMENT, "TNT_LANES": "4", "TNT_FUSION_THRESHOLD_KB": threshold}
    results = run_ranks(lenet5.train, 2, env=env, preloaded=preloaded)
    assert results == [on_one_rank(4)] * 2


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "ranks",
    [
        (1, 1),
        *(pytest.param(each, marks=pytest.mark.thorough) for each in [(2, 2), (1, 1, 1, 1)]),
    ],
)
def test_no_network_changes_a_bit(
    engine: dict[str, str], ranks: tuple[int, ...], on_one_rank: Any
) -> None:
    env = {**ENVIRONMENT, **engine, "TNT_LANES": "4", "TNT_TIMEOUT_S": "200"}
    with network_namespaces.cluster(ranks) as hosts:
        results = run_ranks(lenet5.train, sum(ranks), env=env, hosts=hosts, timeout_s=400)
    assert results == [on_one_rank(4)] * sum(ranks)
