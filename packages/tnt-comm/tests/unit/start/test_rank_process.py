"""A program that a rank starts inherits its variables, and is no rank."""

import pytest

from tnt_comm.start.rank_process import (
    claim_rank,
    forget_rank_of_other_job,
    refuse_child_of_rank,
    scheduler_job,
)

RANK = {"TNT_RANK": "1", "TNT_SIZE": "2", "TNT_JOB_ID": "0123456789abcdef", "TNT_TIMEOUT_S": "9"}
TASK = {
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_STEP_TASKS_PER_NODE": "2",
    "SLURM_NODEID": "0",
    "SLURM_LOCALID": "1",
}


def claimed(process=50, **more):
    """The environment of a rank, and of what it starts."""
    environment = {**RANK, **more}
    claim_rank(environment, process)
    return environment


def describes_rank(environment):
    """Whether the variables of a rank are heeded, which are removed all together."""
    forget_rank_of_other_job(environment)
    kept = [name for name in environment if name.startswith("TNT_") and name != "TNT_TIMEOUT_S"]
    assert not kept or "TNT_RANK" in kept
    assert environment["TNT_TIMEOUT_S"] == "9"  # a setting of the user's
    return bool(kept)


@pytest.mark.parametrize(
    ("variables", "job"),
    [
        ({}, ""),
        (TASK, "SLURM_JOB_ID=7"),
        ({"SLURM_JOB_ID": ""}, ""),
        ({"JOB_ID": "8", "SGE_TASK_ID": "undefined"}, "JOB_ID=8"),
        ({"JOB_ID": "8"}, ""),
        ({"PBS_JOBID": "9.host"}, "PBS_JOBID=9.host"),
    ],
)
def test_the_job_of_a_scheduler_is_known_by_its_number(variables, job):
    assert scheduler_job(variables) == job


def test_the_first_process_that_asks_is_the_rank_and_what_it_starts_is_refused():
    environment = claimed(50)
    claim_rank(environment, 51)
    refuse_child_of_rank(environment, 50)
    with pytest.raises(ValueError, match=r"was started by rank 1 \(process 50\), so it is not"):
        refuse_child_of_rank(environment, 51)


def test_the_ranks_of_a_launcher_in_a_rank_are_ranks():
    environment = claimed(50) | {"TNT_JOB_ID": "fedcba9876543210"}
    refuse_child_of_rank(environment, 51)
    claim_rank(environment, 51)
    with pytest.raises(ValueError, match="process 51"):
        refuse_child_of_rank(environment, 52)


def test_ranks_that_are_known_by_where_they_meet_are_claimed_as_well():
    environment = {"TNT_RANK": "0", "TNT_SIZE": "2", "TNT_RENDEZVOUS": "node01:20000"}
    claim_rank(environment, 50)
    with pytest.raises(ValueError, match="process 50"):
        refuse_child_of_rank(environment, 51)


def test_what_the_only_rank_starts_may_train_alone():
    environment = claimed(50) | {"TNT_SIZE": "1"}
    refuse_child_of_rank(environment, 51)


def test_a_process_of_its_own_is_claimed_by_nobody():
    environment = dict(TASK)
    claim_rank(environment, 50)
    assert environment == TASK


def test_what_a_rank_starts_in_its_job_goes_on_to_know_the_rank():
    assert describes_rank(claimed())
    assert describes_rank(claimed(SLURM_JOB_ID="7"))
    assert describes_rank(claimed(**TASK))


@pytest.mark.parametrize("before", [{}, {"SLURM_JOB_ID": "7"}, TASK], ids=["none", "job", "task"])
def test_a_job_that_a_rank_submits_forgets_the_rank(before):
    assert not describes_rank(claimed(**before) | {"SLURM_JOB_ID": "8"})
    of_launcher = {**RANK, **before, "TNT_SCHEDULER_JOB": scheduler_job(before)}
    assert not describes_rank(of_launcher | {"SLURM_JOB_ID": "8"})


@pytest.mark.parametrize(
    ("before", "start"),
    [
        ({}, {"PMI_RANK": "0", "PMI_SIZE": "2", "MPI_LOCALNRANKS": "2", "MPI_LOCALRANKID": "0"}),
        ({"SLURM_JOB_ID": "7"}, TASK),
        (TASK, {"SLURM_STEP_ID": "1"}),
    ],
    ids=["mpirun", "srun", "srun in a task"],
)
def test_several_processes_that_a_rank_starts_forget_it(before, start):
    assert not describes_rank(claimed(**before) | start)


def test_hosts_of_a_job_may_have_no_scheduler():
    environment = {**RANK, "TNT_SCHEDULER_JOB": "SLURM_JOB_ID=7"}
    assert describes_rank(environment)
