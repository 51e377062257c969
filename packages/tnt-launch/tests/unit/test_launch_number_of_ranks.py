"""The decision table: how many ranks, on which device, with which warning."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tnt_launch.errors import LaunchError
from tnt_launch.planning.number_of_ranks import choose_ranks

COUNT = st.integers(min_value=1, max_value=256)


@given(num_gpus=COUNT)
def test_every_gpu_gets_a_rank_if_no_number_is_given(num_gpus):
    choice = choose_ranks(True, None, num_gpus)
    assert (choice.per_node, choice.gpus_per_node, choice.warning) == (num_gpus, num_gpus, "")


@pytest.mark.parametrize("asked", [None, 1, 2])
def test_no_gpu_on_a_host_without_one_is_noted_and_no_warning(asked):
    choice = choose_ranks(True, asked, 0)
    assert (choice.per_node, choice.gpus_per_node, choice.warning) == (asked or 1, 0, "")
    assert "no GPU found" in choice.note


@given(asked=COUNT, spare=st.integers(0, 10))
def test_enough_gpus_are_used(asked, spare):
    choice = choose_ranks(True, asked, asked + spare)
    assert (choice.per_node, choice.gpus_per_node, choice.warning) == (asked, asked, "")


@given(asked=COUNT.filter(lambda count: count > 1), num_gpus=st.integers(0, 254))
def test_too_few_gpus_are_not_used_at_all_and_warned_about(asked, num_gpus):
    num_gpus = 1 + num_gpus % (asked - 1)
    choice = choose_ranks(True, asked, num_gpus)
    assert (choice.per_node, choice.gpus_per_node) == (asked, 0)
    assert "all ranks run on CPUs" in choice.warning


@given(asked=st.none() | COUNT, num_gpus=st.integers(0, 300))
def test_refused_gpus_are_never_used_and_never_warned_about(asked, num_gpus):
    choice = choose_ranks(False, asked, num_gpus)
    assert (choice.per_node, choice.gpus_per_node, choice.warning) == (asked or 1, 0, "")
    assert choice.note == ""


def test_more_gpus_than_ranks_allowed_need_a_number():
    with pytest.raises(LaunchError, match="give -n N"):
        choose_ranks(True, None, 257)
