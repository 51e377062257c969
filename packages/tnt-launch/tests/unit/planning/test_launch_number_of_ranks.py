"""The decision table: how many ranks, on which device, with which warning."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tnt_launch.errors import LaunchError
from tnt_launch.planning.hosts import HostSlots
from tnt_launch.planning.number_of_ranks import JobRanks, choose_ranks, ranks_of_hosts

COUNT = st.integers(min_value=1, max_value=256)


@given(num_gpus=COUNT)
def test_every_gpu_gets_a_rank_if_no_number_is_given(num_gpus):
    choice = choose_ranks(True, None, num_gpus)
    assert choice == JobRanks((num_gpus,), uses_gpus=True)


@pytest.mark.parametrize("asked", [None, 1, 2])
def test_no_gpu_on_a_host_without_one_is_noted_and_no_warning(asked):
    choice = choose_ranks(True, asked, 0)
    assert (choice.per_host, choice.uses_gpus, choice.warnings) == ((asked or 1,), False, ())
    assert "no GPU found" in choice.notes[0]


@given(asked=COUNT, spare=st.integers(0, 10))
def test_enough_gpus_are_used(asked, spare):
    choice = choose_ranks(True, asked, asked + spare)
    assert choice == JobRanks((asked,), uses_gpus=True)


@given(asked=COUNT.filter(lambda count: count > 1), num_gpus=st.integers(0, 254))
def test_too_few_gpus_are_not_used_at_all_and_warned_about(asked, num_gpus):
    num_gpus = 1 + num_gpus % (asked - 1)
    choice = choose_ranks(True, asked, num_gpus)
    assert (choice.per_host, choice.uses_gpus) == ((asked,), False)
    assert "all ranks run on CPUs" in choice.warnings[0]


@given(asked=st.none() | COUNT, num_gpus=st.integers(0, 300))
def test_refused_gpus_are_never_used_and_never_warned_about(asked, num_gpus):
    choice = choose_ranks(False, asked, num_gpus)
    assert choice == JobRanks((asked or 1,), uses_gpus=False)


def test_more_gpus_than_ranks_allowed_need_a_number():
    with pytest.raises(LaunchError, match="give -n N"):
        choose_ranks(True, None, 257)


def ranks_of(*slots, allow_gpus=True, asked=None, gpus=None):
    hosts = [HostSlots(name, count) for name, count in zip("abcdefgh", slots, strict=False)]
    return ranks_of_hosts(hosts, allow_gpus, asked, gpus or [0] * len(slots))


@given(asked=st.none() | COUNT, num_gpus=st.integers(0, 256), allow_gpus=st.booleans())
def test_equal_hosts_without_slots_follow_the_rules_of_one_host(asked, num_gpus, allow_gpus):
    one = choose_ranks(allow_gpus, asked, num_gpus)
    job = ranks_of(None, None, allow_gpus=allow_gpus, asked=asked, gpus=[num_gpus] * 2)
    assert job.per_host == one.per_host * 2
    assert job.uses_gpus == one.uses_gpus
    assert bool(job.warnings) == bool(one.warnings)
    assert bool(job.notes) == bool(one.notes)


@pytest.mark.parametrize(
    ("slots", "asked", "gpus", "per_host", "uses_gpus"),
    [
        ((2, 2), None, (0, 0), (2, 2), False),
        ((4, 2), 2, (0, 0), (2, 2), False),
        ((None, 2), 2, (0, 0), (2, 2), False),
        ((None, 3), None, (0, 0), (1, 3), False),
        ((None, None), None, (4, 4), (4, 4), True),
        ((2, None), None, (4, 2), (2, 2), True),
        ((None, None), 2, (4, 2), (2, 2), True),
        ((None, None), 2, (4, 1), (2, 2), False),
        ((None, None), None, (2, 0), (2, 1), False),
    ],
)
def test_a_number_wins_over_slots_and_slots_over_gpus(slots, asked, gpus, per_host, uses_gpus):
    job = ranks_of(*slots, asked=asked, gpus=gpus)
    assert (job.per_host, job.uses_gpus) == (per_host, uses_gpus)


def test_a_host_with_fewer_slots_than_ranks_asked_for_is_named():
    with pytest.raises(LaunchError, match=r"-n 3 .* the 2 slots of the host 'b'"):
        ranks_of(3, 2, None, asked=3)


def test_unequal_hosts_get_a_warning_of_what_it_costs():
    (warning,) = ranks_of(4, 2).warnings
    assert "between 2 and 4 ranks" in warning
    assert "every rank sends its own over the network, which is slower" in warning
    assert not ranks_of(2, 2).warnings


def test_hosts_with_too_few_gpus_are_named_and_none_is_used():
    job = ranks_of(*[None] * 6, asked=2, gpus=[2, 1, 0, 1, 1, 1])
    assert not job.uses_gpus
    assert "b (1 for 2), c (0 for 2), d (1 for 2), e (1 for 2) and 1 more" in job.warnings[0]
    assert not ranks_of(None, None, allow_gpus=False, gpus=[2, 0]).warnings
