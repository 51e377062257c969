"""Lost, stopped and late ranks: the others say who, and what for, and nothing is left behind."""

import signal

import pytest
from lost_and_late import (
    LOST,
    come_late,
    complete_before_a_rank_ends,
    create_late,
    die_during_allreduce,
    die_with_half_a_bucket,
    drop_tickets,
    exit_with_work_in_flight,
    finish_early,
    forget_to_start,
    fork_and_use,
    give_up_on_one_group,
    names_in_shared_memory,
    pause_between_steps,
    press_ctrl_c,
    stop_for_a_while,
    use_after_finalize,
    wait_for_a_deadline,
)

from tnt_comm.testing import Preloaded, observe_ranks, run_ranks


@pytest.mark.parametrize("size", [2, 3])
def test_a_killed_rank_is_named_within_a_second_or_two(size: int, forks: Preloaded) -> None:
    reports = observe_ranks(
        die_during_allreduce, size, env={"TNT_TIMEOUT_S": "30"}, preloaded=forks
    )
    assert reports[LOST].exit_code == -signal.SIGKILL
    for report in reports:
        if report.rank == LOST:
            continue
        first, later, waited_s, job = report.value
        assert names_in_shared_memory(job) == []
        assert first.startswith("PeerLostError: ")
        assert "allreduce(float32, 1000 elements, sum)" in first
        assert f"rank {LOST} (host " in first
        assert f"pid {reports[LOST].pid})" in first
        assert "broken since an earlier error" in later
        assert "allreduce(float32, 1000 elements, sum)" in later
        assert float(waited_s) < 10.0  # the job's timeout is 30 s


def test_a_rank_killed_in_a_training_step_is_named_with_the_bucket(forks: Preloaded) -> None:
    reports = observe_ranks(die_with_half_a_bucket, 2, env={"TNT_TIMEOUT_S": "30"}, preloaded=forks)
    assert "step 0 of bucket 0 of 'gradients' ('bias', 'kernel')" in reports[0].value
    assert "is dead" in reports[0].value


def test_a_tensor_that_this_rank_forgot_to_start_is_named(forks: Preloaded) -> None:
    reports = observe_ranks(forget_to_start, 2, env={"TNT_STALL_S": "0.4"}, preloaded=forks)
    for report in reports:
        assert "WARNING" in report.output
        assert "step 0 of bucket 0 of 'gradients' ('bias', 'kernel')" in report.output
        assert "this rank itself, which has not started all tensors" in report.output
        assert ": 'bias' is missing" in report.output
        assert "'bias' is missing" in report.value or "given up by rank" in report.value


def test_a_rank_that_has_finished_is_not_waited_for(forks: Preloaded) -> None:
    values = run_ranks(finish_early, 2, env={"TNT_TIMEOUT_S": "30"}, preloaded=forks)
    assert "has finished" in values[0]


def test_results_survive_a_rank_that_ends_right_after(forks: Preloaded) -> None:
    assert run_ranks(complete_before_a_rank_ends, 3, preloaded=forks) == [900_000.0] * 3


def test_a_rank_that_gives_up_tells_the_others_why(forks: Preloaded) -> None:
    gave_up, told = run_ranks(give_up_on_one_group, 2, preloaded=forks)
    assert gave_up.startswith("CommTimeoutError")
    assert told.startswith("PeerLostError")
    assert "given up by rank 0" in told
    assert "not complete after 0.3 s" in told


def test_a_stopped_rank_is_reported_and_may_come_back(forks: Preloaded) -> None:
    reports = observe_ranks(stop_for_a_while, 2, env={"TNT_STALL_S": "2.5"}, preloaded=forks)
    assert [report.value for report in reports] == ["done", "done"]
    assert "WARNING" in reports[0].output
    assert f"rank {LOST} (host" in reports[0].output
    silent = "does not respond: stopped or swapped out"
    lines = [line for line in reports[0].output.splitlines() if silent in line]
    assert lines
    assert not any("No error yet" in line for line in lines)


def test_a_late_rank_is_reported_with_the_operation(forks: Preloaded) -> None:
    reports = observe_ranks(come_late, 2, env={"TNT_STALL_S": "0.5"}, preloaded=forks)
    assert [report.value for report in reports] == ["done", "done"]
    assert "has not called it yet" in reports[0].output
    assert "step 0 of bucket 0 of 'gradients' ('kernel')" in reports[0].output
    assert "No error yet: a rank may still be preparing its first step" in reports[0].output


def test_only_the_wait_of_a_step_is_reported_and_once_for_all_buckets(forks: Preloaded) -> None:
    reports = observe_ranks(pause_between_steps, 2, env={"TNT_STALL_S": "0.8"}, preloaded=forks)
    assert [report.value for report in reports] == ["done", "done"]
    lines = [line for line in reports[0].output.splitlines() if "has waited" in line]
    assert len(lines) == 1, lines
    assert "step 2 of bucket" in lines[0]
    assert f"for rank {LOST} (host" in lines[0]
    assert "has waited" not in reports[LOST].output


def test_a_deadline_names_who_is_missing_and_breaks_the_group(forks: Preloaded) -> None:
    message, later = run_ranks(wait_for_a_deadline, 2, preloaded=forks)[0]
    assert "not complete after 0.5 s" in message
    assert f"rank {LOST} (host" in message
    assert "has not called it yet" in message
    assert "broken since an earlier error" in later


def test_ctrl_c_ends_a_wait_and_breaks_the_group(forks: Preloaded) -> None:
    interrupted, told = run_ranks(press_ctrl_c, 2, preloaded=forks)
    assert "the wait was interrupted" in interrupted
    assert "given up by rank 0" in told


def test_tickets_may_be_dropped(forks: Preloaded) -> None:
    assert run_ranks(drop_tickets, 2, preloaded=forks) == [2.0, 2.0]


def test_a_group_that_one_rank_creates_late_is_reported(forks: Preloaded) -> None:
    reports = observe_ranks(create_late, 2, env={"TNT_STALL_S": "0.5"}, preloaded=forks)
    assert [report.value for report in reports] == ["(0, 1)", "(0, 1)"]
    assert "for the other members to map" in reports[0].output


def test_leaving_with_work_in_flight_does_not_hang(forks: Preloaded) -> None:
    reports = observe_ranks(exit_with_work_in_flight, 2, timeout_s=80, preloaded=forks)
    assert [report.outcome for report in reports] == ["returned", "returned"]


def test_a_forked_child_is_refused(forks: Preloaded) -> None:
    assert run_ranks(fork_and_use, 2, preloaded=forks) == [7, 7]


@pytest.mark.parametrize("size", [1, 2])
def test_nothing_can_be_used_after_finalize(size: int, forks: Preloaded) -> None:
    run_ranks(use_after_finalize, size, preloaded=forks)
