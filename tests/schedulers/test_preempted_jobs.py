"""A job that the scheduler ends before it is done goes on, and ends with the bits of one life."""

import pytest
from cases import cases
from fitted_lines import OPTIONS, SCRIPT, assert_trained
from ucx_found import needs_ucx

pytestmark = needs_ucx

ON_BOTH = ("--nodes=2", "--ntasks-per-node=1", "--exclusive", "--requeue")
PASS_ON = "trap 'kill -USR1 $!' USR1"  # bash itself does not
NODES = ["n1", "n2"]


def preempt(slurm):
    """Let an urgent job have both nodes for a moment."""
    urgent = slurm.sbatch("true", "--partition=urgent", "--nodes=2", "--exclusive")
    assert urgent.result(within_s=120) == ("COMPLETED", "0:0")


def slow_line(backup, *options):
    """Steps take a second each, and no time in the next life."""
    step_s = "$((SLURM_RESTART_COUNT ? 0 : 1))"
    return f"tarantella {' '.join(options)} {OPTIONS} -- {SCRIPT} {step_s} {backup}"


def test_a_preempted_job_saves_is_requeued_and_goes_on(slurm, tmp_path):
    job = slurm.sbatch(slow_line(tmp_path / "backup", "--requeue"), *ON_BOTH)
    job.wait_for_output("step 1\n")
    preempt(slurm)
    job.run_again_now()
    assert job.result() == ("COMPLETED", "0:0"), job.output
    assert (tmp_path / "backup").exists()
    assert_trained(job.output, NODES)


@pytest.mark.thorough
def test_a_fit_that_is_preempted_ends_with_the_bits_of_an_undisturbed_one(slurm, tmp_path):
    training = "tests/schedulers/scripts/fit_with_backups.py"
    step_s = "$((SLURM_RESTART_COUNT ? 0 : 1))"
    line = f"tarantella --requeue {OPTIONS} -- {training} {tmp_path}/backup {step_s}"
    job = slurm.sbatch(line, *ON_BOTH)
    job.wait_for_output("batch 2\n")
    preempt(slurm)
    job.run_again_now()
    assert job.result() == ("COMPLETED", "0:0"), job.output
    assert job.output.count("batch 0\n") == 3  # each once: the first epoch is not begun again
    assert_trained(job.output, NODES, f"{training} {tmp_path}/undisturbed")


@cases("options", [("--batch",)], thorough=[()])
def test_a_warning_of_the_scheduler_lets_a_job_save_and_be_requeued(slurm, tmp_path, options):
    line = slow_line(tmp_path / "backup", "--requeue")
    job = slurm.sbatch(f"{PASS_ON}\n{line} & wait $!; wait $!", *ON_BOTH)
    job.wait_for_output("step 1\n")
    job.signal("USR1", *options)
    job.run_again_now()
    assert job.result() == ("COMPLETED", "0:0"), job.output
    assert_trained(job.output, NODES)


def test_a_job_that_is_cancelled_saves_and_does_not_come_again(slurm, tmp_path):
    job = slurm.sbatch(slow_line(tmp_path / "backup", "--requeue"), *ON_BOTH)
    job.wait_for_output("step 1\n")
    job.cancel()
    assert job.wait_for() == "CANCELLED"
    assert (tmp_path / "backup").exists()
    for node in slurm.hosts.nodes.values():
        assert node.pids("fit_line.py") == []


def test_jobs_that_are_warned_of_their_time_limit_or_reach_it_save_and_are_requeued(
    slurm, tmp_path
):
    halves = [option for option in ON_BOTH if option != "--exclusive"]
    jobs = []
    for name, options in [("warned", ["--signal=USR1@5"]), ("at-limit", [])]:
        line = slow_line(tmp_path / name, "--requeue").replace(": 1))", ": 5))")
        jobs.append(slurm.sbatch(line, *halves, *options))
    for job, left_s in zip(jobs, (30, 1), strict=True):
        job.wait_for_output("step 1\n")
        slurm.check(f"scontrol update JobId={job.number} EndTime=now+{left_s}")
    for job in jobs:
        job.run_again_now()
    for job in jobs:
        assert job.result() == ("COMPLETED", "0:0"), job.output
        assert_trained(job.output, NODES)
