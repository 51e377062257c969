"""Figures of the link between ranks."""

from collections.abc import Callable

import tnt_comm
from tnt_comm.testing import RankPool

Pools = Callable[[int], RankPool]


def measure() -> tuple[float, float]:
    link = tnt_comm.measure_link()
    return link.latency_s, link.bytes_per_s


def test_all_ranks_have_the_figures_of_the_first_one(pool_of: Pools) -> None:
    results = pool_of(3).run(measure)
    assert len(set(results)) == 1
    latency_s, bytes_per_s = results[0]
    assert 0 < latency_s < 10
    assert bytes_per_s > 0
