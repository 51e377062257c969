"""Lanes give the same bits at any number of ranks that shares them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from lane_trainings import TRAININGS

from tnt_comm.testing import RankPool


def _run(name: str) -> dict[str, str]:
    return TRAININGS[name]()


@pytest.mark.parametrize("name", TRAININGS)
def test_four_lanes_have_the_same_bits_on_one_two_and_four_ranks(
    name: str, pool_of: Callable[..., RankPool]
) -> None:
    of_one, *others = (_results(pool_of(size, lanes=4), name) for size in (1, 2, 4))
    for of_several in others:
        assert of_several == of_one


def _results(pool: RankPool, name: str) -> dict[str, Any]:
    first, *others = pool.run(_run, name)
    assert all(other == first for other in others)
    assert first
    return first
