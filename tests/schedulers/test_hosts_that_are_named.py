"""In a scheduler's job ranks start on the hosts that a user names, with the bits of one host."""

from fitted_lines import OPTIONS, SCRIPT, assert_trained, hosts_in
from run_command import ROOT
from ucx_found import needs_ucx

pytestmark = needs_ucx

AS_SSH = ROOT / "tests/schedulers/scripts/srun_as_ssh.sh"
ON_BOTH = ("--nodes=2", "--ntasks-per-node=2")
FOUR = ["n1", "n1", "n2", "n2"]


def test_srun_starts_agents_for_a_launcher_in_a_batch_script(slurm):
    line = f"tarantella --ssh {AS_SSH} -H n1:2,n2:2 {OPTIONS} -- {SCRIPT}"
    job = slurm.sbatch(line, *ON_BOTH)
    assert job.result() == ("COMPLETED", "0:0")
    assert_trained(job.output, FOUR)


def test_srun_starts_agents_for_a_launcher_on_the_login_host(slurm):
    line = f"tarantella --ssh {AS_SSH} -H n1:2,n2:2 {OPTIONS} -- {SCRIPT}"
    finished = slurm.run(f"salloc {' '.join(ON_BOTH)} --quiet {line}")
    assert finished.status == 0, finished
    assert_trained(finished.output, FOUR)


def test_a_launcher_on_each_node_meets_the_others(slurm):
    place = "--nnodes $SLURM_STEP_NUM_NODES --node-rank $SLURM_NODEID --rendezvous n1:20007"
    command = f"exec tarantella {place} -n 2 {OPTIONS} -- {SCRIPT}"
    finished = slurm.run(f"srun --nodes=2 --ntasks-per-node=1 bash -c '{command}'")
    assert finished.status == 0, finished
    assert_trained(finished.output, FOUR)


def test_qrsh_starts_agents_in_a_job_of_grid_engine(grid_engine):
    hosts = "$(awk '{print $1\":\"$2}' $PE_HOSTFILE | paste -sd,)"
    line = f'tarantella --ssh "qrsh -inherit" -H {hosts} {OPTIONS} -- {SCRIPT}'
    job = grid_engine.qsub(line, "-pe", "tnt", "4")
    assert job.result() == "0", job.output
    hosts = hosts_in(job.output)
    assert hosts in (FOUR, FOUR[::-1])
    assert_trained(job.output, hosts)
