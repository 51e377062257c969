"""What the tests of SLURM rely on: two nodes on which jobs run, end, are requeued and die."""

import pytest


def test_a_batch_script_runs_on_the_first_node_and_its_step_on_both(slurm):
    job = slurm.sbatch("hostname\nsrun --label hostname", "--nodes=2", "--ntasks-per-node=1")
    assert job.result() == ("COMPLETED", "0:0")
    first, *others = job.output.split("\n", 1)
    assert first == "n1"
    assert sorted(others[0].splitlines()) == ["0: n1", "1: n2"]


@pytest.mark.thorough
def test_exit_code_of_a_step_is_that_of_srun(slurm):
    finished = slurm.run("srun --nodes=2 bash -c 'exit $((SLURM_PROCID + 3))'")
    assert finished.status == 4


@pytest.mark.thorough
def test_shared_memory_of_a_node_is_its_own(slurm):
    slurm.check("srun --nodes=1 --nodelist=n1 touch /dev/shm/mine")
    assert slurm.run("srun --nodelist=n1 test -e /dev/shm/mine").status == 0
    assert slurm.run("srun --nodelist=n2 test -e /dev/shm/mine").status == 1


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["pmi2", "pmix"])
def test_tasks_have_a_place_by_pmi(slurm, kind):
    variable = {"pmi2": "PMI_RANK", "pmix": "PMIX_RANK"}[kind]
    told = slurm.check(f"srun --mpi={kind} --nodes=2 --ntasks=4 printenv {variable}")
    assert sorted(told.split()) == ["0", "1", "2", "3"]


@pytest.mark.thorough
def test_scancel_ends_what_ignores_sigterm(slurm):
    job = slurm.sbatch(
        "srun bash -c \"trap '' TERM; echo ready; sleep 600 & wait; wait; sleep 600\""
    )
    job.wait_for_output("ready")
    job.cancel()
    job.wait_for("CANCELLED")
    assert slurm.hosts.nodes["n1"].pids("sleep", "600") == []


STEP = """\
trap 'echo step; exit 0' USR1
echo ready
while :; do sleep 0.1; done
"""


def test_a_signal_reaches_the_script_alone_or_all_steps(slurm, tmp_path):
    (tmp_path / "step.sh").write_text(STEP)
    job = slurm.sbatch(f"trap 'echo script' USR1\nsrun bash {tmp_path}/step.sh &\nwait; wait")
    job.wait_for_output("ready")
    job.signal("USR1", "--batch")
    job.wait_for_output("script")
    assert "step" not in job.output
    job.signal("USR1")
    assert job.result() == ("COMPLETED", "0:0")
    assert "step" in job.output


LIVES = "echo restarts: ${SLURM_RESTART_COUNT:-0}\nsleep $((SLURM_RESTART_COUNT ? 0 : 600))"


@pytest.mark.thorough
def test_a_job_that_is_requeued_runs_again(slurm):
    job = slurm.sbatch(LIVES)
    job.wait_for_output("restarts: 0")
    job.requeue()
    job.run_again_now()
    job.wait_for_output("restarts: 1")
    assert job.result() == ("COMPLETED", "0:0")


def preempt(slurm, job):
    """Let an urgent job take all nodes from this one, and wait until it has them no longer."""
    urgent = slurm.sbatch("true", "--partition=urgent", "--nodes=2", "--exclusive")
    assert urgent.result(within_s=120) == ("COMPLETED", "0:0")


@pytest.mark.thorough
def test_a_job_that_ends_early_when_it_is_preempted_is_not_run_again(slurm):
    job = slurm.sbatch("srun sleep 600", "--nodes=2", "--exclusive", "--requeue")
    job.wait_for("RUNNING")
    preempt(slurm, job)
    assert job.result() == ("FAILED", "143:0")


def test_a_script_that_requeues_its_job_when_it_is_preempted_runs_again(slurm):
    step = "srun sleep $((SLURM_RESTART_COUNT ? 0 : 600))"
    script = f"{step} || {{ scontrol requeue $SLURM_JOB_ID; sleep 60; }}"
    job = slurm.sbatch(script, "--nodes=2", "--exclusive", "--requeue")
    job.wait_for("RUNNING")
    preempt(slurm, job)
    job.run_again_now()
    assert job.result() == ("COMPLETED", "0:0")


@pytest.mark.thorough
def test_a_node_that_vanishes_is_told_and_comes_back(slurm):
    job = slurm.sbatch("srun --nodes=2 sleep 600", "--nodes=2", "--no-requeue")
    job.wait_for("RUNNING")
    slurm.kill("n2")
    job.wait_for("NODE_FAIL", within_s=120)
    slurm.start_node("n2")
    slurm.wait_until_idle()
