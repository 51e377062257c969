"""What ranks measure of the link between them."""

from collections.abc import Callable

import pytest

import tnt_comm
from tnt_comm.testing import RankPool

Pools = Callable[[int], RankPool]


def measure_link() -> tuple[float, float]:
    link = tnt_comm.measure_link()
    return link.latency_s, link.bytes_per_s


def test_all_ranks_have_the_figures_of_the_first_one(pool_of: Pools) -> None:
    results = pool_of(3).run(measure_link)
    assert len(set(results)) == 1
    latency_s, bytes_per_s = results[0]
    assert 0 < latency_s < 10
    assert bytes_per_s > 0


def measure_wire_effect(wire_dtype: str) -> tuple[float, float, float]:
    effect = tnt_comm.measure_wire_effect(wire_dtype)
    return effect.plain_s, effect.compressed_s, effect.relative_error


@pytest.mark.parametrize(("wire_dtype", "roundoff"), [("bfloat16", 2.0**-8), ("float16", 2.0**-11)])
def test_compression_costs_about_half_its_roundoff(
    pool_of: Pools, wire_dtype: str, roundoff: float
) -> None:
    results = pool_of(2).run(measure_wire_effect, wire_dtype)
    assert len(set(results)) == 1
    plain_s, compressed_s, error = results[0]
    assert 0 < plain_s < 10
    assert 0 < compressed_s < 10
    # Each rounding is off by at most the roundoff and rarely by more than half of it; inputs and
    # sum are rounded, and the errors of the two inputs add up as their values do.
    assert roundoff / 10 < error < 2 * roundoff


def test_other_wire_dtypes_have_no_effect_to_measure() -> None:
    with pytest.raises(ValueError, match="wire_dtype='float64'"):
        tnt_comm.measure_wire_effect("float64")
