"""Lost, stopped and late ranks of jobs over GPI-2 and UCX."""

import os
import signal
import subprocess
import sys
import time

import lost_and_late
import numpy as np
import pytest
from cases import cases
from engines import ENGINES, FAREWELL_S, LOOPBACK, hosts_of, variables_for
from lost_and_late import LOST, error_of, lose_the_link

import tnt_comm
from tnt_comm import CommTimeoutError
from tnt_comm.testing import Host, RankReport, observe_ranks, run_ranks

pytestmark = [pytest.mark.timeout(300), pytest.mark.parametrize("engine", ENGINES)]

Engine = dict[str, str]

IN_TIME_S = 120.0  # GPI-2 takes seconds to start, and more where ranks share cores


def observe(
    engine: Engine, function: object, size: int, *args: object, **env: str
) -> list[RankReport]:
    return observe_ranks(function, size, *args, env={**engine, **env}, timeout_s=IN_TIME_S)  # type: ignore[arg-type]


def run(engine: Engine, function: object, size: int, *args: object, **env: str) -> list[object]:
    return run_ranks(function, size, *args, env={**engine, **env}, timeout_s=IN_TIME_S)  # type: ignore[arg-type]


def signal_oneself(number: int) -> None:
    time.sleep(FAREWELL_S)
    os.kill(os.getpid(), number)


def die_during_allreduce(lost: int) -> tuple[str, str, float]:
    """Returns both errors, and the seconds from the death to the first of them."""
    one = np.ones(1000, np.float32)
    tnt_comm.allreduce(one)
    begin = float(tnt_comm.broadcast(np.array([time.time()]), root=lost)[0])
    if tnt_comm.get_rank() == lost:
        signal_oneself(signal.SIGKILL)
    first = error_of(tnt_comm.allreduce, one)
    waited_s = time.time() - begin - FAREWELL_S
    return first, error_of(tnt_comm.barrier), waited_s


def die_with_a_child(lost: int) -> str:
    """The child has all descriptors that it can get, and lives on."""
    tnt_comm.barrier()
    if tnt_comm.get_rank() == lost:
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(20)"], close_fds=False)
        if os.fork() == 0:
            time.sleep(20)
            os._exit(0)
        signal_oneself(signal.SIGKILL)
    return error_of(tnt_comm.barrier)


def stop_for_good(lost: int) -> str:
    pids = tnt_comm.allgather(np.array([os.getpid()]))
    if tnt_comm.get_rank() == lost:
        signal_oneself(signal.SIGSTOP)
    with pytest.raises(CommTimeoutError) as caught:
        tnt_comm.allreduce(np.ones(100_000), timeout_s=4)
    os.kill(int(pids[lost][0]), signal.SIGKILL)  # so that the test does not wait for it
    return str(caught.value)


def stop_all_of_a_host() -> float:
    """Stops the processes of ranks 2 and 3 for longer than a host may be silent."""
    tnt_comm.barrier()
    if tnt_comm.get_rank() >= 2:
        subprocess.Popen(["sh", "-c", f"sleep 7; kill -CONT {os.getpid()}"])
        os.kill(os.getpid(), signal.SIGSTOP)
    return float(tnt_comm.allreduce(np.ones(100_000))[0])


def wait_for_a_late_rank() -> float:
    """Returns the processor time of this process while it waited, in seconds per second."""
    tnt_comm.barrier()
    if tnt_comm.get_rank() == LOST:
        time.sleep(3)
        tnt_comm.barrier()
        return 0.0
    begin, begin_cpu = time.monotonic(), time.process_time()
    tnt_comm.barrier()
    return (time.process_time() - begin_cpu) / (time.monotonic() - begin)


def assert_loss_is_told(reports: list[RankReport], lost: int) -> None:
    assert reports[lost].exit_code == -signal.SIGKILL
    for report in reports:
        if report.rank == lost:
            continue
        assert report.outcome == "returned", report.full_text()
        first, later, waited_s = report.value
        assert first.startswith("PeerLostError: "), first
        assert f"pid {reports[lost].pid})" in first or "was given up by rank" in first
        assert "broken since an earlier error" in later
        assert waited_s < 10  # the job's timeout is 40 s


@pytest.mark.parametrize("size", [2, 3])
def test_a_killed_rank_is_named(engine: Engine, size: int) -> None:
    assert_loss_is_told(observe(engine, die_during_allreduce, size, LOST), LOST)


@cases(
    ("placement", "lost"),
    [("2x2 on one address", 1), ("2x2 in namespaces", 2)],
    thorough=[("2x2 on one address", 2), ("2x2 in namespaces", 1)],
)
def test_a_killed_rank_is_named_on_all_hosts(engine: Engine, placement: str, lost: int) -> None:
    with hosts_of(placement) as hosts:
        reports = observe_ranks(
            die_during_allreduce,
            4,
            lost,
            env=variables_for(placement, engine),
            timeout_s=IN_TIME_S,
            hosts=hosts,
        )
    assert_loss_is_told(reports, lost)


def test_children_of_a_killed_rank_do_not_hide_its_death(engine: Engine) -> None:
    message = observe(engine, die_with_a_child, 2, LOST)[0].value
    assert message.startswith("PeerLostError")
    assert "is dead: it ended without leaving the job" in message


@cases(
    "hosts",
    [pytest.param((Host(1), Host(1)), id="two hosts")],
    thorough=[pytest.param((Host(2),), id="one host")],
)
def test_a_stopped_rank_is_reported_and_ends_the_wait_at_the_deadline(
    engine: Engine, hosts: tuple[Host]
) -> None:
    env = {**engine, **LOOPBACK, "TNT_STALL_S": "3.2"}  # silent after 2 s, deadline after 4 s
    reports = observe_ranks(stop_for_good, 2, LOST, env=env, timeout_s=IN_TIME_S, hosts=hosts)
    assert "not complete after 4 s" in reports[0].value
    assert f"rank {LOST} (host" in reports[0].value
    assert "does not respond: stopped or swapped out" in reports[0].output
    assert reports[0].exit_code == 0


def test_a_stopped_rank_may_come_back(engine: Engine) -> None:
    reports = observe(engine, lost_and_late.stop_for_a_while, 2, TNT_STALL_S="2.5")
    assert [report.value for report in reports] == ["done", "done"]
    assert "does not respond: stopped or swapped out" in reports[0].output


@cases(
    ("cutter", "command"),
    [pytest.param(0, "ip link set plug1 nomaster", id="cable cut")],
    thorough=[pytest.param(3, "ip link set eth0 down", id="link down")],
)
def test_a_host_that_vanishes_is_named_on_both_sides(
    engine: Engine, cutter: int, command: str
) -> None:
    """Long before the deadline, although no connection breaks."""
    env = {**engine, "TNT_TIMEOUT_S": "80", "TNT_STALL_S": "3"}
    with hosts_of("2x2 in namespaces") as hosts:
        reports = observe_ranks(
            lose_the_link, 4, cutter, command, env=env, timeout_s=IN_TIME_S, hosts=hosts
        )
    for report in reports:
        assert report.outcome == "returned", report.full_text()
        assert report.value.startswith("PeerLostError: "), report.value
    for ranks, lost in (((0, 1), hosts[1].address), ((2, 3), hosts[0].address)):
        told = "\n".join(reports[rank].value for rank in ranks)
        assert f"its host {lost} was last heard from" in told
        assert "the host is down, or the link to it" in told


@pytest.mark.thorough  # one rank that is stopped, above
def test_a_host_all_of_whose_ranks_are_stopped_may_come_back(engine: Engine) -> None:
    """The host answers, however long they are stopped."""
    env = {**engine, "TNT_STALL_S": "3"}
    with hosts_of("2x2 in namespaces") as hosts:
        reports = observe_ranks(stop_all_of_a_host, 4, env=env, timeout_s=IN_TIME_S, hosts=hosts)
    assert [report.value for report in reports] == [4.0] * 4
    assert "does not respond: stopped or swapped out" in reports[0].output


def test_a_rank_that_has_finished_is_not_waited_for(engine: Engine) -> None:
    assert "has finished" in run(engine, lost_and_late.finish_early, 2)[0]  # type: ignore[operator]


def test_results_survive_a_rank_that_ends_right_after(engine: Engine) -> None:
    assert run(engine, lost_and_late.complete_before_a_rank_ends, 3) == [900_000.0] * 3


def test_a_rank_that_gives_up_tells_the_others_why(engine: Engine) -> None:
    gave_up, told = run(engine, lost_and_late.give_up_on_one_group, 2)
    assert str(gave_up).startswith("CommTimeoutError")
    assert str(told).startswith("PeerLostError")
    assert "given up by rank 0" in str(told)


def test_a_group_that_one_rank_creates_late_is_reported(engine: Engine) -> None:
    reports = observe(engine, lost_and_late.create_late, 2, TNT_STALL_S="0.5")
    assert [report.value for report in reports] == ["(0, 1)", "(0, 1)"]
    assert "for rank 1 to create group 'ranks 0, 1' together" in reports[0].output


def test_leaving_with_work_in_flight_does_not_hang(engine: Engine) -> None:
    reports = observe(engine, lost_and_late.exit_with_work_in_flight, 2)
    assert [report.outcome for report in reports] == ["returned", "returned"]


def test_a_forked_child_is_refused(engine: Engine) -> None:
    assert run(engine, lost_and_late.fork_and_use, 2) == [7, 7]


@pytest.mark.parametrize("size", [1, 2])
def test_nothing_can_be_used_after_finalize(engine: Engine, size: int) -> None:
    run(engine, lost_and_late.use_after_finalize, size)


def test_waiting_leaves_the_processor_to_others(engine: Engine) -> None:
    share, _ = run(engine, wait_for_a_late_rank, 2)
    assert float(str(share)) < 0.3
