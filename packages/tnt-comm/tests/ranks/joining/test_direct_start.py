"""Ranks that `srun`, an MPI or torchrun has started find their places, and each other."""

import os
import secrets
import time

import numpy as np
import pytest
from process_manager import (
    ProcessManager,
    finish,
    rank_of_open_mpi,
    start,
    task_of_srun,
    worker_of_torchrun,
)
from tree_reference import tree

SUM = """
import sys
import numpy as np, tnt_comm
rank = tnt_comm.get_rank()
total = tnt_comm.allreduce(np.random.default_rng(rank).random(1000, np.float32))
print(rank, tnt_comm.get_size(), tnt_comm.get_local_rank(), tnt_comm.get_local_size(),
      total.tobytes().hex())
"""
MEET = "import os, signal, sys, time, tnt_comm; rank = tnt_comm.get_rank(); "
GO_ON = "tnt_comm.barrier(); print('joined')"


@pytest.fixture
def job() -> int:
    """A number that no other test has at the same time."""
    return secrets.randbelow(1 << 40)


def line_of(rank, size):
    inputs = [np.random.default_rng(one).random(1000, np.float32) for one in range(size)]
    return f"{rank} {size} {rank} {size} {tree(inputs, 'sum').tobytes().hex()}\n"


def test_tasks_of_srun_on_one_node_are_ranks_with_the_sums_of_all_others(job):
    outcomes = finish(start(SUM, 3, lambda rank: task_of_srun(rank, [3], job)))
    assert outcomes == [(0, line_of(rank, 3), "") for rank in range(3)]


def test_workers_of_torchrun_are_ranks(job):
    outcomes = finish(start(SUM, 2, lambda rank: worker_of_torchrun(rank, 2, str(job))))
    assert outcomes == [(0, line_of(rank, 2), "") for rank in range(2)]


def test_processes_of_an_mpi_are_ranks_and_say_goodbye_to_their_manager():
    manager = ProcessManager(3)
    descriptors = [end.fileno() for end in manager.of_processes]
    outcomes = finish(start(SUM, 3, manager.variables, descriptors))
    manager.close()
    assert outcomes == [(0, line_of(rank, 3), "") for rank in range(3)]
    assert manager.said_goodbye == [True] * 3


def test_a_rank_that_fails_says_no_goodbye_so_that_the_manager_ends_all():
    manager = ProcessManager(2)
    descriptors = [end.fileno() for end in manager.of_processes]
    script = MEET + "sys.exit('no data' if rank == 1 else 0)"
    outcomes = finish(start(script, 2, manager.variables, descriptors))
    manager.close()
    assert [code for code, _, _ in outcomes] == [0, 1]
    assert manager.said_goodbye == [True, False]


def tasks_over_the_network(rank, job, **more):
    """Two nodes for SLURM, which turn out to be one host."""
    return {**task_of_srun(rank, [1, 1], job), "TNT_JOB_SECRET": "0123456789abcdef", **more}


def test_tasks_of_two_nodes_that_are_one_host_meet_over_the_network(job):
    outcomes = finish(start(SUM, 2, lambda rank: tasks_over_the_network(rank, job)))
    assert outcomes == [(0, line_of(rank, 2), "") for rank in range(2)]


def test_two_programs_of_one_mpirun_are_ranks_of_one_job(job):
    processes = []
    for rank, rate in enumerate(["0.1", "0.01"]):
        variables = rank_of_open_mpi(rank, 2, f"{job}@1", 2)
        processes += start(SUM, 1, lambda _, told=variables: told, arguments=[rate])
    outcomes = finish(processes)
    assert outcomes == [(0, line_of(rank, 2), "") for rank in range(2)]


@pytest.mark.parametrize(
    "place_of", [lambda rank, job: task_of_srun(rank, [2], job), tasks_over_the_network]
)
def test_two_programs_of_one_step_are_two_jobs(job, place_of):
    programs = [
        start(SUM, 2, lambda rank: place_of(rank, job), arguments=[rate])
        for rate in ("0.1", "0.01")
    ]
    outcomes = finish([process for processes in programs for process in processes])
    assert outcomes == 2 * [(0, line_of(rank, 2), "") for rank in range(2)]


def test_a_process_with_another_secret_is_no_rank(job):
    def variables(rank):
        secret = {"TNT_JOB_SECRET": "fedcba9876543210"} if rank == 1 else {}
        return tasks_over_the_network(rank, job, TNT_TIMEOUT_S="3", **secret)

    outcomes = finish(start(SUM, 2, variables))
    assert [(code, output) for code, output, _ in outcomes] == [(1, "")] * 2
    (_, _, of_host), (_, _, of_other) = outcomes
    assert "CommTimeoutError: rank 0 has waited 3 s for rank 1." in of_host
    assert "it was refused: the secrets of the two differ" in of_other


def test_ranks_of_a_background_job_end_as_quickly(job):
    """Shells start what is behind `&` in a script with SIGINT ignored."""
    ignore = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    fail = "rank == 1 and os.kill(os.getpid(), signal.SIGKILL); "
    outcomes = finish(
        start(ignore + MEET + fail + GO_ON, 2, lambda rank: task_of_srun(rank, [2], job))
    )
    code, output, messages = outcomes[0]
    assert (code, output) == (1, "")
    assert "PeerLostError: rank 1 " in messages


@pytest.mark.parametrize("failing", [0, 1])
def test_a_rank_that_is_killed_before_it_joins_ends_those_that_wait_for_it(failing, job):
    kill = f"rank == {failing} and os.kill(os.getpid(), signal.SIGKILL); "
    began = time.monotonic()
    outcomes = finish(start(MEET + kill + GO_ON, 3, lambda rank: task_of_srun(rank, [3], job)))
    assert time.monotonic() - began < 40
    assert outcomes.pop(failing)[0] == -9
    for code, output, messages in outcomes:
        assert (code, output) == (1, "")
        assert f"PeerLostError: rank {failing} " in messages
        assert "has ended before all ranks had joined the job. See its output." in messages


@pytest.mark.parametrize("failing", [0, 1])
def test_a_rank_that_fails_before_its_first_call_tells_the_others_why(failing, job):
    script = (
        f"import os, tnt_comm\nif os.environ['SLURM_PROCID'] == '{failing}':\n"
        "    raise LookupError('no such record')\ntnt_comm.get_rank()"
    )
    outcomes = finish(start(script, 3, lambda rank: task_of_srun(rank, [3], job)))
    assert [code for code, _, _ in outcomes] == [1] * 3
    del outcomes[failing]
    for _, _, messages in outcomes:
        assert f"PeerLostError: rank {failing} on {os.uname().nodename} has failed" in messages
        assert "LookupError: no such record" in messages


NUMBERS = (
    "int(next(os.environ[n] for n in ('PMI_RANK', 'RANK', 'SLURM_PROCID') if n in os.environ))"
)


def first_do(what, rank=1):
    """A script in which one rank does something before its first call, and the others go on."""
    return (
        f"import os, sys, time, numpy as np, tnt_comm\nif {NUMBERS} == {rank}:\n"
        f"    {what}\n{MEET.partition('; ')[2]}print(tnt_comm.allreduce(np.ones(1, np.float32)))"
    )


def outcomes_of_mpi(script, size, **more):
    """What processes of an MPI do."""
    manager = ProcessManager(size)
    descriptors = [end.fileno() for end in manager.of_processes]
    outcomes = finish(
        start(script, size, lambda rank: {**manager.variables(rank), **more}, descriptors)
    )
    manager.close()
    return outcomes


def assert_ended_with(lost, outcomes, words):
    """Assert that all others have ended because of a rank, which has not failed."""
    for rank, (code, output, messages) in enumerate(outcomes):
        if rank != lost:
            assert (code, output) == (1, "")
            assert (
                f"PeerLostError: rank {lost} on {os.uname().nodename} has ended {words}" in messages
            )


BEFORE = "before its first call of Tarantella. See its output."


@pytest.mark.parametrize("lost", [0, 1])
def test_ranks_of_an_mpi_end_with_one_that_is_gone_before_its_first_call(lost):
    began = time.monotonic()
    outcomes = outcomes_of_mpi(first_do("os._exit(0)", lost), 3)
    assert time.monotonic() - began < 40
    assert outcomes[lost] == (0, "", "")
    assert_ended_with(lost, outcomes, BEFORE)


@pytest.mark.parametrize("lost", [0, 1])
def test_workers_of_torchrun_end_with_one_that_is_gone_before_its_first_call(lost, job):
    began = time.monotonic()
    script = first_do("os._exit(0)", lost)
    outcomes = finish(start(script, 3, lambda rank: worker_of_torchrun(rank, 3, str(job))))
    assert time.monotonic() - began < 40
    assert_ended_with(lost, outcomes, BEFORE)


def test_a_long_wait_for_others_of_an_mpi_is_told_and_goes_on():
    outcomes = outcomes_of_mpi(first_do("time.sleep(7)"), 2, TNT_STALL_S="1")
    assert [(code, output) for code, output, _ in outcomes] == [(0, "[2.]\n")] * 2
    waited = "WARNING tnt-comm rank 0: rank 0 has waited 1 s for others to reach their first call"
    assert outcomes[0][2].startswith(waited)


def test_a_wait_for_others_of_an_mpi_has_an_end():
    outcomes = outcomes_of_mpi(first_do("time.sleep(7)"), 2, TNT_TIMEOUT_S="2")
    assert "CommTimeoutError: rank 0 has waited 2 s for others to reach" in outcomes[0][2]
    assert "has gone" not in outcomes[0][2]


@pytest.mark.parametrize(
    "place_of", [lambda rank, job: task_of_srun(rank, [3], job), tasks_over_the_network]
)
@pytest.mark.parametrize("lost", [0, 1])
def test_an_exit_code_before_the_first_call_is_told_to_the_others(place_of, lost, job):
    size = 2 if place_of is tasks_over_the_network else 3
    outcomes = finish(start(first_do("sys.exit(5)", lost), size, lambda rank: place_of(rank, job)))
    assert outcomes[lost] == (5, "", "")
    assert_ended_with(lost, outcomes, f"with exit code 5 {BEFORE}")


def worker_on_a_host_of_its_own(rank, job):
    """A worker of torchrun on one of two hosts, which turn out to be one."""
    secret = {"TNT_JOB_SECRET": "0123456789abcdef"}
    return {
        **worker_of_torchrun(rank, 2, str(job)),
        **secret,
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
    }


def test_an_error_before_the_first_call_is_told_to_workers_of_torchrun_on_other_hosts(job):
    script = first_do("raise LookupError('no such record')")
    outcomes = finish(start(script, 2, lambda rank: worker_on_a_host_of_its_own(rank, job)))
    assert [code for code, _, _ in outcomes] == [1, 1]
    assert "LookupError: no such record" in outcomes[0][2]


@pytest.mark.parametrize(
    ("end", "code"), [("sys.exit()", 0), ("sys.exit(256)", 0), ("raise SystemExit(5)", 5)]
)
def test_an_end_before_the_first_call_is_told_to_rank_0_if_that_waits(end, code, job):
    script = first_do(f"time.sleep(3); {end}")
    began = time.monotonic()
    outcomes = finish(start(script, 2, lambda rank: tasks_over_the_network(rank, job)))
    assert time.monotonic() - began < 40
    assert outcomes[1] == (code, "", "")
    assert_ended_with(1, outcomes, BEFORE)


def test_an_exit_that_is_caught_or_of_another_process_is_none_of_the_rank(job):
    script = first_do(
        "time.sleep(3)\n    try:\n        sys.exit(5)\n    except SystemExit:\n        pass\n"
        "    if os.fork() == 0:\n        sys.exit(5)\n    os.wait()\n"
        "    if os.fork() == 0:\n        sys.exit()\n    os.wait()"
    )
    outcomes = finish(start(script, 2, lambda rank: task_of_srun(rank, [2], job)))
    assert outcomes == [(0, "[2.]\n", "")] * 2


@pytest.mark.parametrize(
    "place_of", [lambda rank, job: task_of_srun(rank, [2], job), tasks_over_the_network]
)
def test_scripts_without_a_call_end_at_once(place_of, job):
    script = (
        "import time, tnt_comm\nfrom tnt_comm.start import join\nbegan = time.monotonic()\n"
        "join.tell_end()\nassert time.monotonic() - began < 1"
    )
    outcomes = finish(start(script, 2, lambda rank: place_of(rank, job)))
    assert outcomes == [(0, "", "")] * 2


def test_a_rank_that_computes_ends_with_one_that_is_killed(job):
    script = MEET + "rank == 1 and os.kill(os.getpid(), signal.SIGKILL); time.sleep(100)"
    began = time.monotonic()
    (code, _, messages), _ = finish(start(script, 2, lambda rank: task_of_srun(rank, [2], job)))
    assert time.monotonic() - began < 40
    assert code == 1
    assert messages.splitlines()[-1].startswith(
        f"tarantella: rank 0 on {os.uname().nodename} has failed, a consequence of rank 1: "
    )


COME_LATE = (
    MEET
    + "load = lambda: time.sleep(14)\nif rank == 0: load()\ntnt_comm.barrier(); print('joined')"
)


def test_a_rank_that_lives_is_waited_for_and_others_say_where_it_is(job):
    patience = {"TNT_TIMEOUT_S": "8", "TNT_STALL_S": "10"}
    outcomes = finish(start(COME_LATE, 2, lambda rank: task_of_srun(rank, [2], job) | patience))
    assert [(code, output) for code, output, _ in outcomes] == [(0, "joined\n")] * 2
    assert "Rank 0 is at " in outcomes[1][2]
    assert "in <lambda>. This is no error as long as their processes run" in outcomes[1][2]


def test_ranks_that_have_all_come_and_do_not_reach_each_other_fail_in_time(job):
    script = (
        "import os, tnt_comm\nfrom tnt_comm.start import join\njoin.meet()\n"
        "os.environ['TNT_JOB_ID'] += os.environ['TNT_RANK']\ntnt_comm.barrier()"
    )
    patience = {"TNT_TIMEOUT_S": "8"}
    outcomes = finish(start(script, 2, lambda rank: task_of_srun(rank, [2], job) | patience))
    assert [code for code, _, _ in outcomes] == [1, 1]
    for _, _, messages in outcomes:
        assert "CommTimeoutError: all ranks have reached their first collective" in messages


def test_ranks_that_never_join_end_when_they_like(job):
    script = MEET + "time.sleep(2 * rank); print('done')"
    outcomes = finish(start(script, 2, lambda rank: task_of_srun(rank, [2], job)))
    assert outcomes == [(0, "done\n", "")] * 2


def test_a_rank_that_is_done_without_joining_is_told_to_those_that_join(job):
    script = MEET + "sys.exit(0) if rank == 1 else None; time.sleep(1); " + GO_ON
    (code, _, messages), other = finish(start(script, 2, lambda rank: task_of_srun(rank, [2], job)))
    assert (code, other) == (1, (0, "", ""))
    assert "PeerLostError: rank 1 has ended without joining the job." in messages


def test_a_program_that_a_rank_starts_is_refused_as_a_second_one_of_its_number(job):
    script = (
        "import os, subprocess, sys, tnt_comm\n"
        "if os.environ['SLURM_PROCID'] == '1':\n"
        "    run = [sys.executable, '-c', 'import tnt_comm; tnt_comm.get_rank()']\n"
        "    children = [subprocess.Popen(run, stderr=2) for _ in range(2)]\n"
        "    sys.exit(max(child.wait() for child in children))\n"
        "elif os.environ['SLURM_PROCID'] == '2':\n    import time; time.sleep(4)\n"
        "tnt_comm.get_rank()"
    )
    outcomes = finish(start(script, 3, lambda rank: task_of_srun(rank, [3], job)))
    refusal = "rank 1 has already joined: a program that a rank starts is not a rank itself"
    assert refusal in outcomes[1][2]


ALONE = "import tnt_comm; print(tnt_comm.get_size()); tnt_comm.barrier(); tnt_comm.get_rank()"
BATCH = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}


def test_a_script_in_a_batch_script_of_several_tasks_is_one_rank_and_says_so_once():
    ((code, output, messages),) = finish(start(ALONE, 1, lambda rank: BATCH))
    assert (code, output) == (0, "1\n")
    assert messages.count("WARNING tnt-comm rank 0: The job has 4 tasks") == 1
    assert messages.count("\n") == 1
    assert "`srun python train.py`" in messages


def test_the_warning_can_be_switched_off():
    quiet = {**BATCH, "TNT_LOG_LEVEL": "error"}
    assert finish(start(ALONE, 1, lambda rank: quiet)) == [(0, "1\n", "")]


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"PMI_RANK": "0", "PMI_SIZE": "2"}, "has no connection to its process manager (PMI_FD)"),
        ({"PMI_RANK": "0", "PMI_SIZE": "2", "PMI_FD": "87"}, "PMI_FD=87 is not a connection"),
        ({"PMI_RANK": "2", "PMI_SIZE": "2"}, "PMI_RANK=2, but PMI_SIZE=2"),
        (
            {**worker_of_torchrun(0, 2, "gpi2"), "TNT_TRANSPORT": "gpi2"},
            "TNT_TRANSPORT=gpi2 needs facts about the hosts",
        ),
        ({"RANK": "0", "WORLD_SIZE": "2"}, "set MASTER_ADDR and MASTER_PORT as well"),
        (
            {**task_of_srun(1, [2], 7), "TNT_RANK": "0", "TNT_SIZE": "1"},
            "TNT_RANK=0 and TNT_SIZE=1 without TNT_JOB_ID, which `tarantella` also sets, "
            "contradicts SLURM_STEP_NUM_TASKS=2",
        ),
    ],
    ids=["no manager", "no connection", "a contradiction", "GPI-2", "a pod", "set by hand"],
)
def test_ranks_that_cannot_meet_are_refused_with_the_remedy(variables, words):
    ((code, output, messages),) = finish(start(ALONE, 1, lambda rank: variables))
    assert (code, output) == (1, "")
    assert words in messages
    assert "tarantella" in messages
