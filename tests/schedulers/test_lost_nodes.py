"""A node that dies ends a job's ranks at once; the job goes on without it, or when it is back."""

from fitted_lines import OPTIONS, SCRIPT, assert_trained
from ucx_found import needs_ucx

pytestmark = needs_ucx

ON_BOTH = ("--nodes=2", "--ntasks-per-node=1", "--requeue")


def test_a_job_that_has_lost_a_node_runs_again_when_that_is_back(slurm):
    line = f"tarantella {OPTIONS} -- {SCRIPT} $((SLURM_RESTART_COUNT ? 0 : 1))"
    script = f"{line} || {{ scontrol requeue $SLURM_JOB_ID; sleep 60; }}"
    job = slurm.sbatch(script, *ON_BOTH)
    job.wait_for_output("step 1\n")
    slurm.kill("n2")
    job.wait_for_output("n2")
    slurm.start_node("n2")
    job.run_again_now()
    assert job.result() == ("COMPLETED", "0:0"), job.output
    assert_trained(job.output, ["n1", "n2"])


def test_a_job_goes_on_without_a_node_that_is_lost(slurm):
    line = f"tarantella --max-restarts 1 --min-ranks 1 {OPTIONS} -- {SCRIPT} 0.5"
    job = slurm.sbatch(line, *ON_BOTH, "--no-kill")
    job.wait_for_output("step 1\n")
    slurm.kill("n2")
    assert job.result() == ("COMPLETED", "0:0"), job.output
    assert_trained(job.output, ["n1"])
