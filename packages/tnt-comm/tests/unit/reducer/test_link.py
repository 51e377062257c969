"""The automatic fusion threshold follows its formula."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tnt_comm import Link, fusion_threshold_for


@pytest.mark.parametrize(
    ("latency_s", "bytes_per_s", "kilobytes"),
    [
        (9e-6, 9.8e9, 256),  # 345 kB: nearer to 256 than to 512
        (3e-6, 10e9, 128),  # 117 kB
        (100e-6, 0.11e9, 32),  # 43 kB, on a network of 1 Gbit/s
        (1e-9, 1e6, 4),  # never less
        (1.0, 1e12, 16 * 1024),  # never more
    ],
)
def test_latency_is_a_quarter_of_the_transfer_time(
    latency_s: float, bytes_per_s: float, kilobytes: int
) -> None:
    assert fusion_threshold_for(Link(latency_s, bytes_per_s)) == kilobytes * 1024


@given(st.floats(1e-7, 1e-2), st.floats(1e6, 1e11))
def test_the_threshold_is_a_power_of_two_near_the_exact_size(
    latency_s: float, bytes_per_s: float
) -> None:
    threshold = fusion_threshold_for(Link(latency_s, bytes_per_s))
    assert threshold & (threshold - 1) == 0
    assert 4 * 1024 <= threshold <= 16 * 1024 * 1024
    exact = latency_s * bytes_per_s / 0.25
    if 4 * 1024 < exact < 16 * 1024 * 1024:
        assert abs(math.log2(threshold / exact)) <= 0.5 + 1e-9
