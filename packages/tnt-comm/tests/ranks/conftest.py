"""Processes shared by the tests of this folder."""

from collections.abc import Callable, Iterator

import pytest

from tnt_comm.testing import RankPool


@pytest.fixture(scope="session")
def pool_of() -> Iterator[Callable[[int], RankPool]]:
    """Gives the pool with that many ranks, started at its first use and reused after."""
    pools: dict[int, RankPool] = {}

    def pool(size: int) -> RankPool:
        if size not in pools:
            pools[size] = RankPool(size, env={"TNT_TIMEOUT_S": "100"}, timeout_s=110)
        return pools[size]

    yield pool
    for started in pools.values():
        started.close()
