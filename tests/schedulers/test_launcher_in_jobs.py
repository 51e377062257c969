"""`tarantella -- train.py` in a scheduler's job takes hosts and tasks from it."""

import os
import shlex

from cluster_hosts import PATH
from fitted_lines import OPTIONS, SCRIPT, assert_trained, hosts_in, results
from ucx_found import needs_ucx

pytestmark = needs_ucx

LINE = f"tarantella {OPTIONS} -- {SCRIPT}"
ON_BOTH = ("--nodes=2", "--ntasks-per-node=2")
FOUR = ["n1", "n1", "n2", "n2"]


def test_a_batch_script_trains_on_the_tasks_of_its_job(slurm):
    job = slurm.sbatch(LINE, *ON_BOTH)
    assert job.result() == ("COMPLETED", "0:0"), job.output
    assert_trained(job.output, FOUR)


def test_a_launcher_on_the_login_host_starts_no_rank_there(slurm):
    finished = slurm.run(f"salloc --quiet {' '.join(ON_BOTH)} {LINE}")
    assert finished.status == 0, finished
    assert_trained(finished.output, FOUR)


def test_a_site_that_passes_on_no_variables_is_no_obstacle(slurm):
    # The last two choose numpy's kernels, on which bits depend.
    names = ("TNT_UCX_LIBRARY", "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
    kept = [f" {name}={shlex.quote(os.environ[name])}" for name in names if name in os.environ]
    activate = f"export PATH={PATH}{''.join(kept)}"
    job = slurm.sbatch(f"{activate}\n{LINE}", *ON_BOTH, "--export=NONE")
    assert job.result() == ("COMPLETED", "0:0"), job.output
    assert_trained(job.output, FOUR)


def test_a_job_can_have_fewer_ranks_than_tasks_on_each_node(slurm):
    job = slurm.sbatch(LINE.replace("tarantella", "tarantella -n 1"), *ON_BOTH)
    assert job.result() == ("COMPLETED", "0:0"), job.output
    assert_trained(job.output, ["n1", "n2"])


def test_more_ranks_than_tasks_are_refused_with_both_numbers(slurm):
    finished = slurm.run(
        f"salloc --quiet {' '.join(ON_BOTH)} {LINE.replace('tarantella', 'tarantella -n 8')}"
    )
    assert finished.status == 2, finished
    assert "8" in finished.messages
    assert "4" in finished.messages


def test_launchers_that_srun_starts_meet_or_refuse(slurm):
    line = LINE.replace("tarantella", "tarantella -n 2")
    finished = slurm.run(f"srun --nodes=2 --ntasks-per-node=1 {line}")
    if finished.status == 0:
        assert_trained(finished.output, FOUR)
    else:
        assert results(finished.output) == []


def test_a_job_of_grid_engine_trains_on_its_slots(grid_engine):
    job = grid_engine.qsub(LINE, "-pe", "tnt", "4")
    assert job.result() == "0", job.output
    hosts = hosts_in(job.output)
    assert hosts in (FOUR, FOUR[::-1])
    assert_trained(job.output, hosts)
