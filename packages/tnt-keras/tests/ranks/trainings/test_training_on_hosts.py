"""Training on several hosts gives the bits of one host with as many ranks, over each engine."""

from __future__ import annotations

import functools
from typing import Any

import lenet5
import network_namespaces
import pytest
from engines import ENGINES
from rank_pools import ENVIRONMENT

from tnt_comm.testing import run_ranks

HOSTS = [(1, 1), (2, 2), (1, 1, 1), (2, 2, 2)]
"""Ranks of each host."""


@pytest.fixture(scope="module")
def on_one_host(preloaded: Any) -> Any:
    """Gives the results of so many ranks on this host."""

    @functools.cache
    def results(size: int) -> list[dict[str, Any]]:
        return run_ranks(lenet5.train, size, env=ENVIRONMENT, preloaded=preloaded)

    return results


@pytest.mark.thorough  # 2 and 2 ranks are in tests/end_to_end, on hosts with an sshd
@pytest.mark.parametrize("ranks", HOSTS)
@pytest.mark.parametrize("engine", ENGINES)
def test_lenet5_has_the_bits_of_one_host(
    engine: dict[str, str], ranks: tuple[int, ...], on_one_host: Any
) -> None:
    size = sum(ranks)
    env = {**ENVIRONMENT, **engine, "TNT_TIMEOUT_S": "200"}
    with network_namespaces.cluster(ranks) as hosts:
        results = run_ranks(lenet5.train, size, env=env, hosts=hosts, timeout_s=400)
    assert results == on_one_host(size)
