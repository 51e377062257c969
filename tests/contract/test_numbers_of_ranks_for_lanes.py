"""Launcher and ranks know the same numbers of ranks for lanes."""

import pytest

from tnt_keras.process import lanes
from tnt_launch.planning.lanes import valid_sizes


@pytest.mark.parametrize("number", range(1, 65))
def test_lanes_can_be_on_the_same_numbers_of_ranks(number):
    assert list(valid_sizes(number)) == lanes.valid_sizes(number)
