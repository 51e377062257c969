"""Which failures are so alike that another start would end in the same way."""

from dataclasses import replace

import pytest

from tnt_launch.running.board import Failure
from tnt_launch.running.ending import RankEnd
from tnt_launch.running.restarts import is_same_failure

FAILURE = Failure("ValueError", "no such folder", "/home/me/train.py", 12)
END = RankEnd(1, "alpha", 4242, 1, failure=FAILURE, position="in epoch 3, step 120")


def test_the_same_error_at_the_same_line_and_step_is_the_same_failure():
    assert is_same_failure(END, replace(END, rank=0, pid=4711, time_s=9.0))


@pytest.mark.parametrize(
    "change",
    [
        {"position": "in epoch 3, step 121"},
        {"exit_code": 3},
        {"failure": replace(FAILURE, line=13)},
        {"failure": replace(FAILURE, text="no space left")},
    ],
)
def test_another_step_line_text_or_exit_code_is_another_failure(change):
    assert not is_same_failure(END, replace(END, **change))


@pytest.mark.parametrize(
    "change",
    [
        {"exit_code": -9, "failure": None},
        {"exit_code": 255, "why_lost": "host beta is lost", "failure": None},
        {"failure": replace(FAILURE, cause_rank=0)},
    ],
)
def test_what_comes_from_outside_may_be_gone_the_next_time(change):
    end = replace(END, **change)
    assert not is_same_failure(end, end)
