"""The rank to blame is found and told first."""

import signal

import pytest

from tnt_launch.running.board import Failure
from tnt_launch.running.ending import RankEnd, exit_text, first_failure, shell_exit_code
from tnt_launch.running.report import report_failure

HEAD = "Traceback (most recent call last):\n"
LOST = Failure("tnt_comm.PeerLostError", "rank 0: lost rank 1", cause_rank=1)
OWN = HEAD + "  somewhere\nValueError: no\n"


def end(rank, exit_code=0, **fields):
    return RankEnd(rank, "alpha", 1000 + rank, exit_code, **fields)


def test_no_failure_blames_nobody():
    assert first_failure([end(0), end(1, -15, was_ended=True)]) is None


def test_the_first_failure_in_time_is_to_blame():
    ends = [end(2), end(1, 3), end(0, 4)]
    assert first_failure(ends) is ends[1]


@pytest.mark.parametrize("cause", [end(1, -signal.SIGKILL), end(1, 1, stderr=OWN)])
def test_an_error_of_its_own_is_to_blame_even_after_the_report_of_a_lost_peer(cause):
    ends = [end(0, 1, failure=LOST), cause, end(2, 1, stderr=OWN)]
    assert first_failure(ends) is cause


def test_a_rank_that_was_told_of_anothers_failure_is_not_to_blame():
    told = Failure("OtherRankError.RuntimeError", "rank 1 failed: SystemExit: 4", cause_rank=1)
    ends = [end(0, 1, failure=told), end(2, 1, failure=told), end(1, 4)]
    assert first_failure(ends) is ends[2]
    assert first_failure(ends[:2]) is ends[0]


def test_a_rank_that_ended_because_of_an_error_of_another_that_it_caught_is_not_to_blame():
    ends = [end(0, 7, failure=Failure(cause_rank=1)), end(1, 4)]
    assert first_failure(ends) is ends[1]


def test_if_all_only_lost_a_peer_the_first_of_them_is_told():
    ends = [end(3), end(2, 1, failure=LOST), end(0, 1, failure=LOST)]
    assert first_failure(ends) is ends[1]
    text = report_failure(ends[1], ends)
    assert "rank 2 on alpha (pid 1002) was the first to fail, because of rank 1: " in text
    assert "rank 3 on alpha (pid 1003): left with exit code 0" in text


def test_a_rank_ended_by_the_launcher_is_not_to_blame():
    ends = [end(0, -signal.SIGTERM, was_ended=True), end(1, 5)]
    assert first_failure(ends) is ends[1]


def test_a_rank_ended_by_the_launcher_after_its_own_error_is_to_blame_with_pythons_exit_code():
    own = Failure("ValueError", "no", time_s=1.0)
    late = end(0, -signal.SIGTERM, time_s=3.0, was_ended=True, failure=own)
    ends = [end(1, 5, time_s=2.0), late]
    assert first_failure(ends) is late
    assert late.own_exit_code == 1
    assert "failed first: exit code 1: ValueError: no" in report_failure(late, ends)


def test_a_rank_that_did_well_in_the_end_has_not_failed():
    assert not end(0, 0, failure=Failure("ValueError", "no")).has_failed


@pytest.mark.parametrize(("code", "shell"), [(0, 0), (3, 3), (-9, 137), (-15, 143)])
def test_exit_codes_are_those_of_a_shell(code, shell):
    assert shell_exit_code(code) == shell


def test_exit_codes_have_words():
    assert exit_text(3) == "exit code 3"
    assert exit_text(-9) == "killed by SIGKILL"
    assert exit_text(-40) == "killed by signal 40"


def test_the_report_starts_with_the_rank_to_blame_and_has_a_line_for_each_other():
    cause = end(1, 7, stderr="noise\n" + OWN, stdout="said before\n")
    ends = [
        cause,
        end(3, 1, failure=LOST),
        end(2, -9, was_ended=True, was_stopped=True),
        end(0, -15, was_ended=True),
        end(4),
    ]
    assert report_failure(cause, ends, script="a.py").splitlines() == [
        "tarantella: rank 1 on alpha (pid 1001) failed first: exit code 7: a.py: ValueError: no "
        "[rank-failed]",
        "--- rank 1, last lines of stdout:",
        "said before",
        "--- rank 1, end of stderr:",
        *OWN.splitlines(),
        "--- other ranks:",
        "rank 0 on alpha (pid 1000): was still running, ended by tarantella",
        "rank 2 on alpha (pid 1002): was stopped (SIGSTOP), ended by tarantella",
        "rank 3 on alpha (pid 1003): exit code 1: tnt_comm.PeerLostError: rank 0: lost rank 1",
        "rank 4 on alpha (pid 1004): left with exit code 0",
        "--- the cause:",
        "ValueError: no",
    ]


def test_without_a_traceback_the_last_lines_of_stderr_are_told():
    cause = end(0, -11, stderr="".join(f"line {number}\n" for number in range(100)))
    lines = report_failure(cause, [cause]).splitlines()
    assert lines[2:] == [f"line {number}" for number in range(70, 100)]


def test_the_report_of_a_rank_without_a_traceback_ends_with_how_it_ended():
    cause = end(1, -9, stderr="noise\n")
    lines = report_failure(cause, [cause, end(0, 1, failure=LOST)]).splitlines()
    assert lines[0] == (
        "tarantella: rank 1 on alpha (pid 1001) failed first: killed by SIGKILL [rank-failed]"
    )
    assert lines[-1] == "rank 1 on alpha (pid 1001): killed by SIGKILL"


def test_a_rank_that_ended_itself_is_told_with_its_last_line():
    for code in (7, -signal.SIGABRT):
        cause = end(1, code, stderr="F: no\n")
        assert report_failure(cause, [cause, end(0)]).endswith(": F: no\n")


def test_what_faulthandler_says_of_a_signal_is_told():
    stderr = "Fatal Python error: Segmentation fault\n\nStack:\n  x\nExtension modules: numpy\n"
    cause = end(1, -signal.SIGSEGV, stderr=stderr)
    assert report_failure(cause, [cause, end(0)]).endswith(
        "killed by SIGSEGV: Fatal Python error: Segmentation fault\n"
    )


def test_a_traceback_that_a_rank_printed_before_a_signal_is_no_cause():
    cause = end(1, -signal.SIGKILL, stderr=OWN)
    assert report_failure(cause, [cause, end(0)]).endswith("killed by SIGKILL\n")


@pytest.mark.parametrize("after", ["a note\n", "second line of the message\n\nand more\n"])
@pytest.mark.parametrize("others", [0, 1])
def test_the_last_line_is_the_exception_whatever_follows_it(after, others):
    cause = end(0, 1, stderr=OWN + after)
    lines = report_failure(cause, [cause, end(1, 1, failure=LOST)][: 1 + others]).splitlines()
    assert after.splitlines()[0] in lines
    assert lines[0].endswith(": ValueError: no [rank-failed]")
    assert lines[-1] == "ValueError: no"


def test_a_line_of_another_rank_is_one_line_with_its_exception():
    other = end(1, 1, stderr=OWN + "a note\nanother\n")
    cause = end(0, 1, stderr=OWN)
    assert "rank 1 on alpha (pid 1001): exit code 1: ValueError: no\n--- " in report_failure(
        cause, [cause, other]
    )


def test_what_a_rank_has_told_counts_and_not_what_it_has_printed():
    told = Failure("ValueError", "yes", "/work/a/train.py", 12)
    cause = end(0, 1, stderr=OWN, failure=told)
    first, *_, last = report_failure(cause, [cause, end(1)], "/work", "a/train.py").splitlines()
    assert first.endswith("failed first: exit code 1: a/train.py:12: ValueError: yes [rank-failed]")
    assert last == "ValueError: yes"


def test_the_first_line_names_the_users_own_line():
    stderr = HEAD + '  File "/work/a/train.py", line 12, in main\n    f()\nValueError: no\n'
    cause = end(0, 1, stderr=stderr)
    (first, *_) = report_failure(cause, [cause], "/work", "a/train.py").splitlines()
    assert first.endswith("failed first: exit code 1: a/train.py:12: ValueError: no [rank-failed]")


def test_the_report_says_where_in_the_training_a_rank_was():
    cause = end(1, -signal.SIGKILL, position="in epoch 3, step 120")
    first = report_failure(cause, [cause]).splitlines()[0]
    assert first.endswith(
        "(pid 1001) failed first, in epoch 3, step 120: killed by SIGKILL [rank-failed]"
    )


def test_many_ranks_that_ended_alike_are_one_line():
    def lost(rank):
        told = Failure("tnt_comm.PeerLostError", f"rank {rank}: lost rank 12", cause_rank=12)
        return end(rank, -signal.SIGTERM, failure=told, was_ended=True)

    cause = end(12, -signal.SIGKILL)
    others = [lost(rank) for rank in range(10)] + [end(11, 3), end(10)]
    report = report_failure(cause, [cause, *others]).splitlines()
    assert report[report.index("--- other ranks:") + 1 : -2] == [
        "ranks 0-9 (10 ranks), the first of them: ended by tarantella after "
        "tnt_comm.PeerLostError: rank 0: lost rank 12",
        "rank 10 on alpha (pid 1010): left with exit code 0",
        "rank 11 on alpha (pid 1011): exit code 3",
    ]
