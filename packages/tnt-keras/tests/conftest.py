"""Pools of rank processes, which import TensorFlow once and serve all tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tnt_comm.testing import RankPool

ENVIRONMENT = {"TNT_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "2"}


@pytest.fixture(scope="session")
def pool_of() -> Iterator[Callable[[int], RankPool]]:
    """Gives the pool with that many ranks, started when a test asks for it first."""
    pools: dict[int, RankPool] = {}

    def get(size: int) -> RankPool:
        if size not in pools:
            pools[size] = RankPool(size, env=ENVIRONMENT, timeout_s=120)
            pools[size].__enter__()
        return pools[size]

    yield get
    for pool in pools.values():
        pool.close()
