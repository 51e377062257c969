"""What a scheduler has given to the job around this process: hosts, tasks, how agents start."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tnt_launch.errors import LaunchError
from tnt_launch.planning.hosts import MAX_RANKS_PER_NODE, HostSlots, split_host_list

Environment = Mapping[str, str]

# Set where a rank is started, not in the plan: its hosts may be of several jobs.
SCHEDULER_JOB = "TNT_SCHEDULER_JOB"
_JOBS = ("SLURM_JOB_ID", "LSB_JOBID", "PBS_JOBID", "OAR_JOB_ID")
_FIRST_SPECIAL_STEP = 4294967290  # batch scripts and shells of SLURM, which no srun has started
_TASKS = re.compile(r"(?P<tasks>[0-9]{1,9})(?:\(x(?P<times>[0-9]{1,9})\))?", re.ASCII)


@dataclass(frozen=True)
class Allocation:
    """The hosts of a job of a scheduler."""

    scheduler: str  # as people call it
    hosts: tuple[HostSlots, ...]  # each once, in the scheduler's order; the slots are its tasks
    command: tuple[str, ...]  # what runs a command on a host, or, for SLURM, on all of them
    # Whether that passes neither stdin nor stdout on, so that agents have to call the launcher.
    dials_in: bool = False
    here: str = ""  # the host on which this process may use all that the job has there
    gpus_per_host: int | None = None  # where it is known, and has to be said again

    @property
    def is_one_step(self) -> bool:
        """Whether one command starts the agents of all hosts."""
        return self.command[0] == "srun"


class _System(NamedTuple):
    """A scheduler: the variable by which its jobs are known, and how that tells the hosts."""

    scheduler: str
    variable: str
    read: Callable[[_Source], list[HostSlots]]
    command: tuple[str, ...]
    dials_in: bool = False


class _Source(NamedTuple):
    """The variable that tells the hosts, and where it is from."""

    variable: str
    environment: Environment
    read_file: Callable[[str], str]

    @property
    def text(self) -> str:
        return self.environment[self.variable]

    def lines(self) -> list[list[str]]:
        """Return the words of each line of the file that the variable names."""
        try:
            text = self.read_file(self.text)
        except (OSError, ValueError) as error:
            raise LaunchError(
                f"{self.variable} names the file {self.text!r}, which cannot be read: {error}. "
                f"Name the hosts with -H."
            ) from None
        return [line.split() for line in text.splitlines() if line.strip()]

    def fail(self, why: str) -> LaunchError:
        return LaunchError(
            f"{self.variable}={self.text!r} does not tell the hosts of the job: {why}. Name them "
            f"with -H."
        )


def find_allocation(environment: Environment, read_file: Callable[[str], str]) -> Allocation | None:
    """Return what a scheduler has given to this process; `None` if nothing. Pure but for files."""
    system = _system_of(environment)
    if system is None or is_task_of_srun(environment):
        return None
    source = _Source(system.variable, environment, read_file)
    hosts = system.read(source)
    if not hosts:
        raise source.fail("it names none")
    for host in hosts:
        if host.slots is not None and not 1 <= host.slots <= MAX_RANKS_PER_NODE:
            raise source.fail(f"{host.name} has {host.slots} slots, not 1 to {MAX_RANKS_PER_NODE}")
    is_slurm = system.scheduler == "SLURM"
    is_torque = environment.get("PBS_VERSION", "").startswith("TORQUE")
    command = _OF_TORQUE if system.scheduler == "PBS" and is_torque else system.command
    return Allocation(
        system.scheduler,
        tuple(hosts),
        command,
        system.dials_in,
        # A shell in a step may have fewer cores.
        "" if _is_in_step(environment) else environment.get("SLURMD_NODENAME", ""),
        _slurm_gpus(environment, hosts) if is_slurm else None,
    )


def scheduler_of(environment: Environment) -> str:
    """Return the scheduler of the job around this process, empty where there is none. Pure."""
    system = _system_of(environment)
    return "" if system is None else system.scheduler


def scheduler_job_of(environment: Environment) -> str:
    """Return the job around this process, `SLURM_JOB_ID=7`; empty where there is none. Pure."""
    names = [name for name in _JOBS if environment.get(name)]
    if "SGE_TASK_ID" in environment and environment.get("JOB_ID"):  # others have a JOB_ID, too
        names.append("JOB_ID")
    return f"{names[0]}={environment[names[0]]}" if names else ""


def _system_of(environment: Environment) -> _System | None:
    return next((one for one in _SYSTEMS if environment.get(one.variable)), None)


def is_task_of_srun(environment: Environment) -> bool:
    """Return whether srun has started this process, other than as a shell to type in. Pure."""
    is_shell = "SLURM_PTY_PORT" in environment and environment.get("SLURM_PROCID") == "0"
    return _is_in_step(environment) and not is_shell


def _is_in_step(environment: Environment) -> bool:
    step = environment.get("SLURM_STEP_ID", "")
    return step.isdecimal() and int(step) < _FIRST_SPECIAL_STEP


def read_tasks(text: str) -> list[int]:
    """Read numbers of tasks as SLURM writes them, `2(x3),1`; none if malformed. Pure."""
    numbers: list[int] = []
    for item in text.split(","):
        found = _TASKS.fullmatch(item)
        if found is None:
            return []
        numbers += [int(found["tasks"])] * int(found["times"] or 1)
    return numbers


def _slurm_hosts(source: _Source) -> list[HostSlots]:
    environment = source.environment
    if "SLURM_HET_SIZE" in environment:
        raise LaunchError(
            "the components of a heterogeneous SLURM job (SLURM_HET_SIZE) cannot be used as hosts "
            "of one job. Ask for one component, or name the hosts with -H."
        )
    names = split_host_list(source.text)
    if not names:
        raise source.fail("it is malformed")
    # A shell that srun has started in an allocation has the tasks of its own step here, and
    # without a number of tasks that the user has asked for SLURM says 1 for each host.
    is_stated = "SLURM_NTASKS" in environment or "SLURM_NTASKS_PER_NODE" in environment
    text = environment.get("SLURM_TASKS_PER_NODE", "")
    if not is_stated or not text:
        return [HostSlots(name) for name in names]
    tasks = read_tasks(text)
    if len(tasks) != len(names):
        if "SLURM_PTY_PORT" in environment:
            return [HostSlots(name) for name in names]
        raise source.fail(f"SLURM_TASKS_PER_NODE={text!r} does not fit its {len(names)} hosts")
    return [HostSlots(*pair) for pair in zip(names, tasks, strict=True)]


def _slurm_gpus(environment: Environment, hosts: Sequence[HostSlots]) -> int | None:
    # A step of one task on each host gets one task's share of GPUs that were asked for by task, or
    # for the whole job, unless it asks for more. Kinds may stand in front: `a100:4`.
    counts = {
        name: int(text.rpartition(":")[2])
        for name, text in environment.items()
        if name.startswith("SLURM_GPUS") and re.fullmatch(r"(?:[^,]*:)?[0-9]{1,9}", text)
    }
    for name in ("SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE"):
        if name in counts:
            return counts[name]
    if "SLURM_GPUS_PER_TASK" in counts and hosts[0].slots is not None:
        return counts["SLURM_GPUS_PER_TASK"] * hosts[0].slots
    total = counts.get("SLURM_GPUS", 0)
    return total // len(hosts) or None


def _added(pairs: Iterable[tuple[str, str]]) -> list[HostSlots]:
    """Return each host once, with the sum of its slots."""
    slots: Counter[str] = Counter()
    for name, number in pairs:
        slots[name] += int(number)
    return [HostSlots(*pair) for pair in slots.items()]


def _one_line_per_slot(source: _Source) -> list[HostSlots]:
    return _added((words[0], "1") for words in source.lines())


def _pbs_hosts(source: _Source) -> list[HostSlots]:
    hosts = _one_line_per_slot(source)
    if all(host.slots == 1 for host in hosts):  # nobody has asked for a number of processes
        return [HostSlots(host.name) for host in hosts]
    return hosts


def _grid_engine_hosts(source: _Source) -> list[HostSlots]:
    # A host has a line for each of its queues.
    lines = source.lines()
    if not all(len(words) >= 2 and words[1].isdecimal() for words in lines):
        raise source.fail("a line of this file is not HOST SLOTS QUEUE CORES")
    return _added((words[0], words[1]) for words in lines)


def _lsf_hosts(source: _Source) -> list[HostSlots]:
    words = source.text.split()
    if len(words) % 2 or not all(map(str.isdecimal, words[1::2])):
        raise source.fail("it is not HOST SLOTS HOST SLOTS")
    return _added(zip(words[::2], words[1::2], strict=True))


_OF_TORQUE = ("pbsdsh", "-h")
# SLURM before PBS: the commands of PBS may stand in front of SLURM.
_SYSTEMS = (
    _System("SLURM", "SLURM_JOB_NODELIST", _slurm_hosts, ("srun",), True),
    _System("Grid Engine", "PE_HOSTFILE", _grid_engine_hosts, ("qrsh", "-inherit")),
    _System("LSF", "LSB_DJOB_HOSTFILE", _one_line_per_slot, ("blaunch",)),
    _System("LSF", "LSB_MCPU_HOSTS", _lsf_hosts, ("blaunch",)),
    _System("PBS", "PBS_NODEFILE", _pbs_hosts, ("pbs_tmrsh",), True),
    _System("OAR", "OAR_NODEFILE", _one_line_per_slot, ("oarsh",)),
    _System("OAR", "OAR_FILE_NODES", _one_line_per_slot, ("oarsh",)),
)
