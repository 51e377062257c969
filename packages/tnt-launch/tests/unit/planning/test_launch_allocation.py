"""The hosts and tasks that a scheduler has given, from its variables and files."""

import pytest

from tnt_launch.errors import LaunchError
from tnt_launch.planning.allocation import find_allocation, read_tasks
from tnt_launch.planning.hosts import HostSlots

# As SLURM 22.05 sets them for `-N 2 --ntasks-per-node=2`.
SALLOC = {
    "SLURM_JOB_ID": "11",
    "SLURM_JOB_NODELIST": "n[1-2]",
    "SLURM_NTASKS": "4",
    "SLURM_NTASKS_PER_NODE": "2",
    "SLURM_TASKS_PER_NODE": "2(x2)",
}
SBATCH = SALLOC | {"SLURMD_NODENAME": "n1", "SLURM_PROCID": "0", "SLURM_NODEID": "0"}
INTERACTIVE = SBATCH | {
    "SLURM_STEP_ID": "4294967290",
    "SLURM_STEP_NUM_TASKS": "1",
    "SLURM_STEP_NODELIST": "n1",
    "SLURM_PTY_PORT": "42439",
}
SHELL_OF_SRUN = INTERACTIVE | {"SLURM_STEP_ID": "0", "SLURM_TASKS_PER_NODE": "1"}
PART_STEP = SBATCH | {"SLURM_STEP_ID": "5", "SLURM_STEP_NODELIST": "n2", "SLURM_NTASKS": "1"}
BOTH = (HostSlots("n1", 2), HostSlots("n2", 2))


def allocation(environment, text=None):
    """What is found, where all files have this text."""

    def read(path):
        if text is None:
            raise FileNotFoundError(2, "No such file or directory", path)
        return text

    return find_allocation(environment, read)


def test_without_a_scheduler_there_is_none():
    assert allocation({"USER": "ada", "JOB_ID": "3", "SLURM_CONF": "/etc/slurm.conf"}) is None


@pytest.mark.parametrize(
    ("environment", "here"),
    [(SALLOC, ""), (SBATCH, "n1"), (INTERACTIVE, "n1")],
    ids=["salloc", "sbatch", "interactive step"],
)
def test_shells_of_slurm_have_the_hosts_of_the_job_with_its_tasks(environment, here):
    found = allocation(environment)
    assert (found.scheduler, found.hosts, found.here) == ("SLURM", BOTH, here)
    assert found.command == ("srun",)
    assert found.dials_in


def test_a_shell_in_a_step_is_kept_to_its_cores_so_that_no_rank_is_started_from_it():
    found = allocation(SHELL_OF_SRUN)
    assert found.hosts == (HostSlots("n1"), HostSlots("n2"))
    assert found.here == ""


def test_a_step_on_a_part_of_the_job_has_this_host_alone():
    assert allocation(PART_STEP) is None


def test_tasks_that_nobody_has_asked_for_are_no_limit():
    unstated = {n: text for n, text in SALLOC.items() if not n.startswith("SLURM_NTASKS")}
    found = allocation(unstated | {"SLURM_TASKS_PER_NODE": "1(x2)"})
    assert found.hosts == (HostSlots("n1"), HostSlots("n2"))


@pytest.mark.parametrize(
    ("nodes", "tasks", "expected"),
    [
        ("n[1-3],m7", "2(x3),1", [("n1", 2), ("n2", 2), ("n3", 2), ("m7", 1)]),
        ("r[01,03]c2", "3,1", [("r01c2", 3), ("r03c2", 1)]),
        ("alpha", "12", [("alpha", 12)]),
    ],
)
def test_lists_of_slurm_are_written_out(nodes, tasks, expected):
    found = allocation(SALLOC | {"SLURM_JOB_NODELIST": nodes, "SLURM_TASKS_PER_NODE": tasks})
    assert [(host.name, host.slots) for host in found.hosts] == expected


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("4", [4]), ("2(x3),1", [2, 2, 2, 1]), ("", []), ("2(x", []), ("2(x2)1", []), ("a", [])],
)
def test_numbers_of_tasks_are_read_or_malformed(text, numbers):
    assert read_tasks(text) == numbers


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"SLURM_JOB_NODELIST": "n[1-"}, "SLURM_JOB_NODELIST='n[1-' does not tell"),
        (
            {"SLURM_TASKS_PER_NODE": "2(x3)"},
            "SLURM_TASKS_PER_NODE='2(x3)' does not fit its 2 hosts",
        ),
        ({"SLURM_TASKS_PER_NODE": "two"}, "SLURM_TASKS_PER_NODE='two' does not fit"),
        ({"SLURM_TASKS_PER_NODE": "300(x2)"}, "n1 has 300 slots, not 1 to 256"),
        ({"SLURM_HET_SIZE": "2"}, "heterogeneous SLURM job"),
    ],
)
def test_variables_of_slurm_that_do_not_fit_are_named(changed, why):
    with pytest.raises(LaunchError) as error:
        allocation(SALLOC | changed)
    assert why in str(error.value)
    assert "-H" in str(error.value)


@pytest.mark.parametrize(
    ("variables", "gpus"),
    [
        ({}, None),
        ({"SLURM_GPUS_ON_NODE": "4"}, 4),
        ({"SLURM_GPUS_PER_NODE": "a100:4"}, 4),
        ({"SLURM_GPUS_PER_TASK": "1"}, 2),
        ({"SLURM_GPUS_PER_TASK": "a100:2"}, 4),
        ({"SLURM_GPUS": "8"}, 4),
        ({"SLURM_GPUS_PER_TASK": "a100:1,v100:1"}, None),
    ],
)
def test_gpus_that_a_step_has_to_ask_for_again(variables, gpus):
    assert allocation(SALLOC | variables).gpus_per_host == gpus


PE_HOSTFILE = "n1 2 main.q@n1 UNDEFINED\nn2.site 3 main.q@n2 UNDEFINED\nn1 1 other.q@n1 UNDEFINED\n"
NODES = "n1\nn1\nn2\nn2\n"


@pytest.mark.parametrize(
    ("variables", "text", "scheduler", "hosts", "command"),
    [
        (
            {"PE_HOSTFILE": "/spool/pe_hostfile"},
            PE_HOSTFILE,
            "Grid Engine",
            [("n1", 3), ("n2.site", 3)],
            ("qrsh", "-inherit"),
        ),
        ({"PBS_NODEFILE": "/f"}, NODES, "PBS", [("n1", 2), ("n2", 2)], ("pbs_tmrsh",)),
        ({"PBS_NODEFILE": "/f"}, "n1\nn2\n", "PBS", [("n1", None), ("n2", None)], ("pbs_tmrsh",)),
        (
            {"PBS_NODEFILE": "/f", "PBS_VERSION": "TORQUE-6.1.1"},
            "n1\nn1\n",
            "PBS",
            [("n1", 2)],
            ("pbsdsh", "-h"),
        ),
        ({"LSB_DJOB_HOSTFILE": "/f"}, NODES, "LSF", [("n1", 2), ("n2", 2)], ("blaunch",)),
        ({"LSB_MCPU_HOSTS": "n1 2 n2 4"}, None, "LSF", [("n1", 2), ("n2", 4)], ("blaunch",)),
        ({"OAR_NODEFILE": "/f"}, NODES, "OAR", [("n1", 2), ("n2", 2)], ("oarsh",)),
        ({"OAR_FILE_NODES": "/f"}, NODES, "OAR", [("n1", 2), ("n2", 2)], ("oarsh",)),
    ],
)
def test_other_schedulers_tell_hosts_and_slots(variables, text, scheduler, hosts, command):
    found = allocation(variables, text)
    assert found.scheduler == scheduler
    assert [(host.name, host.slots) for host in found.hosts] == hosts
    assert found.command == command
    # Those that start nothing with a stdin and a stdout.
    assert found.dials_in == (scheduler == "PBS")


def test_slurm_counts_before_the_commands_of_pbs_in_front_of_it():
    assert allocation(SALLOC | {"PBS_NODEFILE": "/f"}, "x\n").scheduler == "SLURM"


@pytest.mark.parametrize(
    ("variables", "text", "why"),
    [
        (
            {"PE_HOSTFILE": "/gone"},
            None,
            "PE_HOSTFILE names the file '/gone', which cannot be read",
        ),
        ({"PE_HOSTFILE": "/f"}, "n1\n", "HOST SLOTS QUEUE CORES"),
        ({"PBS_NODEFILE": "/f"}, "\n", "PBS_NODEFILE='/f' does not tell the hosts of the job"),
        ({"LSB_MCPU_HOSTS": "n1 2 n2"}, None, "LSB_MCPU_HOSTS='n1 2 n2' does not tell"),
    ],
)
def test_what_cannot_be_read_is_named(variables, text, why):
    with pytest.raises(LaunchError) as error:
        allocation(variables, text)
    assert why in str(error.value)
