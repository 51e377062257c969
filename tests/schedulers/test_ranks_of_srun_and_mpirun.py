"""`srun python train.py` and `mpirun python train.py` make one world, with the bits of one host."""

import pytest
from cases import cases
from fitted_lines import SCRIPT, assert_trained, results
from mpis import MPIS, mpirun_of
from ucx_found import needs_ucx

pytestmark = needs_ucx

ON_BOTH = ("--nodes=2", "--ntasks-per-node=2")
FOUR = ["n1", "n1", "n2", "n2"]


@pytest.mark.parametrize("kind", ["none", "pmi2", "pmix"])
def test_tasks_of_srun_are_ranks(slurm, kind):
    finished = slurm.run(["srun", *ON_BOTH, f"--mpi={kind}", "python", SCRIPT])
    assert finished.status == 0, finished
    assert_trained(finished.output, FOUR)


@cases(
    ("options", "hosts"),
    [
        ("--nodes=2 --ntasks=4", ["n1", "n1", "n1", "n2"]),
        ("--nodes=2 --ntasks-per-node=2 --distribution=cyclic", FOUR),
    ],
    thorough=[
        ("--nodes=2 --ntasks=3", ["n1", "n1", "n2"]),
        ("--nodes=1 --ntasks=2", ["n1", "n1"]),
    ],
)
def test_ranks_of_a_node_are_consecutive_however_tasks_are_placed(slurm, options, hosts):
    finished = slurm.run(f"srun {options} python {SCRIPT}")
    assert finished.status == 0, finished
    assert_trained(finished.output, hosts)


def test_two_steps_of_a_job_at_a_time_are_two_worlds(slurm):
    step = f"srun --overlap --nodes=2 --ntasks=2 python {SCRIPT}"
    job = slurm.sbatch(f"{step} & {step} & wait", *ON_BOTH)
    assert job.result() == ("COMPLETED", "0:0")
    first, second = results(job.output)
    assert first == second
    assert first["hosts"] == ["n1", "n2"]


def test_a_script_beside_the_steps_is_a_world_of_its_own_and_says_what_to_type(slurm):
    job = slurm.sbatch(f"python {SCRIPT}", *ON_BOTH)
    assert job.result() == ("COMPLETED", "0:0")
    assert_trained(job.output, ["n1"])
    assert "srun" in job.output


FAIL_FIRST = """
import os, sys, time
import tnt_comm
if os.environ["SLURM_PROCID"] == "1":
    {}
tnt_comm.init()
"""


@pytest.mark.parametrize("tasks_of_node", [1, 2])
@cases(
    ("end", "status", "words"),
    [
        ("raise RuntimeError('no data')", 1, "RuntimeError: no data"),
        ("sys.exit(5)", 5, "has ended with exit code 5 before its first call"),
    ],
    thorough=[("time.sleep(3); sys.exit()", 1, "has ended before its first call")],
)
def test_a_rank_that_ends_before_it_joins_ends_the_others_within_seconds(
    slurm, tasks_of_node, end, status, words
):
    tasks = ["--nodes=2", f"--ntasks-per-node={tasks_of_node}"]
    finished = slurm.run(["srun", *tasks, "python", "-c", FAIL_FIRST.format(end)], within_s=60)
    assert finished.status == status, finished
    node = "n2" if tasks_of_node == 1 else "n1"
    assert f"PeerLostError: rank 1 on {node} has" in finished.messages
    assert words in finished.messages


@pytest.mark.parametrize("mpi", MPIS)
def test_processes_of_mpirun_on_two_hosts_are_ranks(slurm, mpi):
    job = slurm.sbatch(f"{mpirun_of(mpi)} -n 4 python {SCRIPT}", *ON_BOTH)
    assert job.result() == ("COMPLETED", "0:0"), job.output
    assert_trained(job.output, FOUR)
