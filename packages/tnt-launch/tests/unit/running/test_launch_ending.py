"""How long the ranks that run have after the failure of another one."""

import signal

import pytest

from tnt_launch.running.board import Failure
from tnt_launch.running.ending import (
    GRACE_S,
    LEAVING_S,
    RankEnd,
    first_failure,
    time_of_end,
)

T = 100.0


def own(time_s=T):
    return Failure("RuntimeError", "no more disk", time_s=time_s)


def because_of(rank, time_s=T):
    return Failure("tnt_comm.PeerLostError", f"lost rank {rank}", cause_rank=rank, time_s=time_s)


def end(rank, exit_code, failure=None, **fields):
    return RankEnd(rank, "alpha", 1000 + rank, exit_code, time_s=T, failure=failure, **fields)


KILLED = end(1, -signal.SIGKILL)
ERRORS = [KILLED, end(1, 1, own()), end(1, 3)]
ERROR_IDS = ["signal", "error", "exit"]


@pytest.mark.parametrize("cause", ERRORS, ids=ERROR_IDS)
@pytest.mark.parametrize("told", [None, because_of(1), own(T + 0.1)])
def test_the_others_have_a_short_grace_after_an_end_that_is_the_cause(cause, told):
    assert time_of_end([cause], {0: None, 2: told}) == T + GRACE_S


@pytest.mark.parametrize("cause", ERRORS, ids=ERROR_IDS)
def test_a_rank_whose_own_error_came_before_may_end_by_itself(cause):
    assert time_of_end([cause], {0: own(T - 1), 2: None}) == T - 1 + LEAVING_S


def test_the_earlier_error_is_the_cause_though_its_rank_ends_later():
    late = RankEnd(0, "alpha", 1000, 1, time_s=T + 1, failure=own(T - 1))
    ends = [end(1, 1, own(T - 0.5)), end(2, 4), late]
    assert first_failure(ends) is late


def test_a_rank_is_waited_for_if_another_one_has_failed_because_of_it():
    """It may print nothing, and tell nothing: `sys.exit(4)`."""
    told = end(0, 1, because_of(1))
    assert time_of_end([told], {1: None, 2: None}) == T + LEAVING_S
    assert time_of_end([told], {1: own(T + 1)}) == T + LEAVING_S
    assert time_of_end([told, end(1, 0)], {2: None}) == T + GRACE_S


def test_nobody_waits_for_ranks_that_tell_of_each_other():
    assert time_of_end([end(0, 1, because_of(1))], {1: because_of(0)}) == T + GRACE_S


def test_a_cause_is_found_through_ranks_that_tell_of_others():
    told = end(0, 1, because_of(1))
    assert time_of_end([told], {1: because_of(2), 2: None}) == T + LEAVING_S
    assert time_of_end([told], {1: because_of(2), 3: None}) == T + GRACE_S
