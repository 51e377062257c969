"""How long the ranks that run have after the failure of another one."""

import signal

import pytest

from tnt_launch.output.report import RankEnd, first_failure
from tnt_launch.running.ending import (
    EARLIER_S,
    GRACE_S,
    LEAVING_S,
    SETTLE_S,
    TOLD_GRACE_S,
    Survivor,
    time_of_end,
)

T = 100.0
HEAD = "Traceback (most recent call last):\n"
LOST = HEAD + "tnt_comm.errors.PeerLostError: rank 0: lost rank 1\n"
TOLD = HEAD + "tnt_keras.calls.errors.OtherRankError: rank 1 failed: SystemExit: 4\n"
OWN = HEAD + "RuntimeError: no more disk\n"


def end(rank, exit_code, **fields):
    return RankEnd(rank, "alpha", 1000 + rank, exit_code, time_s=T, **fields)


KILLED = end(1, -signal.SIGKILL)
ERRORS = [KILLED, end(1, 1, stderr=OWN), end(1, 3)]
ERROR_IDS = ["signal", "error", "exit"]


@pytest.mark.parametrize("cause", ERRORS, ids=ERROR_IDS)
def test_silent_ranks_have_a_short_grace_after_an_error_that_is_certain(cause):
    told = Survivor(LOST, T + 0.01, T + 0.01)
    assert time_of_end([cause], [told, Survivor()], T) == T + GRACE_S


@pytest.mark.parametrize("cause", ERRORS, ids=ERROR_IDS)
def test_all_ends_at_once_if_all_have_told_of_the_lost_rank(cause):
    told = [Survivor(LOST, T + 0.01, T + 0.02), Survivor(OWN, T + 0.04, T + 0.04)]
    assert time_of_end([cause], told, T) == T + 0.04 + SETTLE_S


def test_ranks_that_go_on_writing_have_no_longer_than_silent_ones():
    assert time_of_end([KILLED], [Survivor(LOST, T, T + 60)], T) == T + GRACE_S


def test_nobody_is_left_to_wait_for():
    assert time_of_end([KILLED], [], T) == T


def test_a_rank_whose_own_error_came_before_may_end_by_itself():
    earlier = Survivor(OWN, T - 1, T - 0.9)
    assert time_of_end([KILLED], [earlier, Survivor()], T) == T - 1 + EARLIER_S


def test_a_lost_peer_that_is_read_before_the_end_of_the_rank_is_no_earlier_error():
    assert time_of_end([KILLED], [Survivor(LOST, T - 0.01, T)], T) == T + SETTLE_S


def test_the_earlier_error_is_the_cause_though_its_rank_ends_later():
    late = RankEnd(0, "alpha", 1000, 1, time_s=T + 1, told_s=T - 1, stderr=OWN)
    ends = [end(1, 1, stderr=OWN, told_s=T - 0.5), end(2, 4), late]
    assert first_failure(ends) is late


def test_a_signal_ends_a_rank_when_it_comes():
    killed = end(1, -signal.SIGKILL, told_s=T - 2, stderr=OWN)
    error = end(0, 1, told_s=T - 1, stderr=OWN)
    assert first_failure([killed, error]) is error


@pytest.mark.parametrize("error", [LOST, TOLD])
def test_ranks_that_print_nothing_are_waited_for_only_if_they_have_told_the_others(error):
    told = end(0, 1, stderr=error)
    after = T + TOLD_GRACE_S
    assert time_of_end([told], [Survivor()], T) == after
    expected = after if error is LOST else T + LEAVING_S
    assert time_of_end([told], [Survivor()], after) == expected
    assert time_of_end([told], [Survivor(OWN, T, T)], after) == T + LEAVING_S
