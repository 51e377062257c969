"""Whatever is killed whenever, a job on as many ranks ends with the bits of an undisturbed one."""

import os
import random
import signal
import time

import psutil
from cases import cases
from cluster_hosts import wait_until
from fitted_lines import OPTIONS, SCRIPT, assert_trained
from ucx_found import needs_ucx

pytestmark = needs_ucx

# Words of the command lines of a launcher, an agent and a rank; those of a rank have no others.
LAUNCHER, AGENT, RANK = ("bin/tarantella",), ("dial_in_agent",), ("fit_line.py",)
PROCESSES = [LAUNCHER, AGENT, RANK]
NODE = "n2"
VICTIMS = [*PROCESSES, NODE]


def processes(slurm, words):
    """Processes of both nodes that are a launcher, an agent or a rank."""
    nodes = slurm.hosts.nodes.values()
    found, launchers = (
        {pid for node in nodes for pid in node.pids(*each)} for each in (words, LAUNCHER)
    )
    return sorted(found if words == LAUNCHER else found - launchers)


@cases("seed", range(5), thorough=range(5, 100))
def test_a_job_survives_the_death_of_any_of_its_processes_or_nodes(slurm, tmp_path, seed):
    chance = random.Random(seed)
    victim = VICTIMS[seed % len(VICTIMS)]
    launcher = f"tarantella --max-restarts 1 {OPTIONS} -- {SCRIPT} 0.1 {tmp_path}/backup"
    script = f"{launcher} || {{ scontrol requeue $SLURM_JOB_ID; sleep 60; }}"
    job = slurm.sbatch(script, "--nodes=2", "--ntasks-per-node=1", "--requeue")
    job.wait_for_output("step 0\n")
    time.sleep(chance.uniform(0, 1))
    if victim == NODE:
        slurm.kill(NODE)
        job.wait_for_output(NODE)
        slurm.start_node(NODE)
    else:
        found = processes(slurm, victim)
        if victim == LAUNCHER:
            # A launcher keeps a child, without which a job goes on.
            found = [pid for pid in found if psutil.Process(pid).ppid() not in found]
        os.kill(chance.choice(found), signal.SIGKILL)
    # A node that is back in time is used by the launcher's restart in place.
    is_requeued = victim == NODE and job.wait_for("PENDING", "COMPLETED") == "PENDING"
    if victim == LAUNCHER or is_requeued:
        job.run_again_now()
    assert job.result() == ("COMPLETED", "0:0"), job.output
    assert_trained(job.output, ["n1", "n2"])
    assert [path.name for path in tmp_path.iterdir()] == ["backup"]
    for words in PROCESSES:
        wait_until(lambda words=words: processes(slurm, words) == [], f"the end of {words}")
