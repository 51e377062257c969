"""What the environment of a process says about its place among others, by whatever started them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

# Steps of SLURM that are no tasks of the user's `srun`: batch, extern and interactive ones.
_FIRST_SPECIAL_STEP = 4294967290
_TASKS_OF_NODES = re.compile(r"(\d+)(?:\(x(\d+)\))?")
_TORCHRUN = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_SIZES = {  # where each starter tells the number of processes
    "slurm": "SLURM_STEP_NUM_TASKS",
    "open mpi": "OMPI_COMM_WORLD_SIZE",
    "pmi": "PMI_SIZE",
    "torchrun": "WORLD_SIZE",
}


@dataclass(frozen=True)
class Place:
    """Where a process stands among those that were started with it; all numbers start at 0."""

    starter: str  # what has started it: `slurm`, `open mpi`, `pmi` or `torchrun`
    # its number. Those of a host are consecutive where the environment tells their number
    rank: int
    size: int  # number of processes
    local_rank: int | None = None  # its number on its host
    local_size: int | None = None  # number of processes on its host
    num_nodes: int | None = None  # number of hosts
    # what tells this start from all others on the hosts, where the environment says so
    job: str = ""
    has_several_programs: bool = False  # one job all the same, as in `mpirun a.py : b.py`

    @property
    def is_on_one_host(self) -> bool:
        """Whether all processes are known to be on this host."""
        return self.local_size == self.size


def find_place(environment: Mapping[str, str], is_typed: bool = False) -> Place | None:
    """Return the place of a process among others that were started with it. Pure.

    None for the ranks of the launcher, which need no other place, and for a process of its own. A
    ValueError names variables that are set in part, malformed, or contradict each other. `is_typed`
    says that the command was typed into a shell, which may have the variables of a task.
    """
    found = _Variables(environment)
    if not {"TNT_RANK", "TNT_SIZE"} & environment.keys():
        return _place_by_starter(found, is_typed)
    if "TNT_JOB_ID" not in found:  # which every rank of the launcher has
        _refuse_world_of_one(found, is_typed)
    return None


def _place_by_starter(found: _Variables, is_typed: bool) -> Place | None:
    """Return what the environment says without the variables of the launcher."""
    if "OMPI_COMM_WORLD_RANK" in found or "OMPI_COMM_WORLD_SIZE" in found:
        return _place_of_open_mpi(found)
    is_step = found.number("SLURM_STEP_NUM_TASKS", 1) > 1 and not _is_special_step(found)
    is_pmi = "PMI_RANK" in found or "PMI_SIZE" in found
    if is_pmi and (not is_step or "MPI_LOCALNRANKS" in found):
        return _place_of_pmi(found)
    is_torchrun = "TORCHELASTIC_RUN_ID" in found
    if is_torchrun or (all(name in found for name in _TORCHRUN) and not is_step):
        return _place_of_torchrun(found)
    if is_step and not (is_typed and "SLURM_PTY_PORT" in found):
        return _place_of_slurm(found)
    _refuse_unknown_starters(found)
    _refuse_half_of_torchrun(found)  # its names are general: the last rule
    return None


def advice(environment: Mapping[str, str]) -> str | None:
    """Return what to tell the user of a process without a place in a job of several. Pure.

    A batch script or a shell in an allocation is none of the job's tasks, whatever their number.
    """
    found = _Variables(environment)
    if {"TNT_RANK", "TNT_SIZE"} & environment.keys():
        return None
    tasks = found.count("SLURM_NTASKS")
    if tasks > 1:
        return (
            f"The job has {tasks} tasks (SLURM_NTASKS), but this process is not one of them: it "
            "runs alone, as one rank. To use them all, start the script with `srun python "
            "train.py`, or with `tarantella -- train.py`. [runs-alone]"
        )
    if found.count("WORLD_SIZE") > 1 and "RANK" in found:
        return (
            f"WORLD_SIZE={found.count('WORLD_SIZE')}, but RANK={found.text('RANK')} is not a "
            "number below it: this process runs alone, as one rank. To use all ranks, correct "
            "RANK, and set MASTER_ADDR and MASTER_PORT; or start the script with `tarantella -- "
            "train.py`. [runs-alone]"
        )
    hosts = max(_hosts_of_grid_engine(found), found.count("PBS_NUM_NODES"), _hosts_of_lsf(found))
    if hosts > 1:
        return (
            f"The job has {hosts} hosts, but this process runs alone, as one rank. To use them "
            "all, start the script with `tarantella -- train.py`. [runs-alone]"
        )
    return None


class _Variables:
    """The variables of an environment, and errors that name them."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    def __contains__(self, name: str) -> bool:
        return name in self._environment

    def text(self, *names: str) -> str:
        """Return the first that is set, an empty one if none is."""
        return next((self._environment[name] for name in names if name in self), "")

    def count(self, name: str, otherwise: int = 0) -> int:
        """Return a number that is no more than a hint, another one if it is none."""
        text = self.text(name).strip()
        return int(text) if text.isascii() and text.isdecimal() else otherwise

    def number(self, name: str, default: int | None = None) -> int:
        """Return a number; without a default it must be set."""
        if name not in self and default is not None:
            return default
        text = self.text(name).strip()
        if text.isascii() and text.isdecimal():
            return int(text)
        is_set = f"is '{text}', which is not a number" if name in self else "is missing"
        raise self.error(f"{name} {is_set}")

    def optional(self, name: str) -> int | None:
        """Return a number, None if it is not set."""
        return self.number(name) if name in self else None

    def below(self, name: str, limit: int, of: str) -> int:
        """Return a number that counts from 0 up to another one."""
        number = self.number(name)
        self.check(number < limit, f"{name}={number}, but {of}={limit}")
        return number

    def check(self, is_right: bool, what: str) -> None:
        """Refuse numbers that contradict each other."""
        if not is_right:
            raise self.error(what)

    def error(self, what: str) -> ValueError:
        """Return an error of variables that whatever has started the process should have set."""
        return ValueError(
            f"The environment does not say which of several processes this one is: {what}. Start "
            "the script again, with `srun`, `mpirun`, `torchrun` or `tarantella`; or unset these "
            "variables to run it as one rank."
        )


def _place_of_open_mpi(found: _Variables) -> Place:
    for name in ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"):  # which it always tells
        found.number(name)
    place = _place_by_numbers(
        found,
        "open mpi",
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        ("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
        job=found.text("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"),
    )
    return replace(place, has_several_programs=found.count("OMPI_NUM_APP_CTX") > 1)


def _place_of_pmi(found: _Variables) -> Place:
    """Return the place that a process manager with PMI tells, such as Hydra of MPICH."""
    of_host = ("MPI_LOCALRANKID", "MPI_LOCALNRANKS")
    return _place_by_numbers(found, "pmi", ("PMI_RANK", "PMI_SIZE"), of_host)


def _place_of_torchrun(found: _Variables) -> Place:
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        found.check(bool(found.text(name).strip()), f"{name} is missing")
    words = ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT")
    return _place_by_numbers(
        found,
        "torchrun",
        ("RANK", "WORLD_SIZE"),
        ("LOCAL_RANK", "LOCAL_WORLD_SIZE"),
        job=".".join(found.text(word).strip() for word in words),
    )


def _place_by_numbers(
    found: _Variables,
    starter: str,
    of_all: tuple[str, str],
    of_host: tuple[str, str],
    job: str = "",
) -> Place:
    """Return the place that four variables tell: rank and size of all, and those on this host."""
    size = found.number(of_all[1])
    local_size = found.optional(of_host[1])
    if local_size is None:
        local_rank = found.optional(of_host[0])
    else:
        found.check(local_size <= size, f"{of_host[1]}={local_size}, but {of_all[1]}={size}")
        local_rank = found.below(of_host[0], local_size, of_host[1])
    return Place(
        starter=starter,
        rank=found.below(of_all[0], size, of_all[1]),
        size=size,
        local_rank=local_rank,
        local_size=local_size,
        num_nodes=1 if local_size == size else None,
        job=job,
    )


def _place_of_slurm(found: _Variables) -> Place:
    """Return the place of a task of `srun`."""
    # SLURM_PROCID goes around the hosts with `--distribution=cyclic`; ranks of a host follow each
    # other. Both are equal for blocks.
    size = found.number("SLURM_STEP_NUM_TASKS")
    tasks = _tasks_of_nodes(found, size)
    found.check(
        sum(tasks) == size,
        f"SLURM_STEP_TASKS_PER_NODE={found.text('SLURM_STEP_TASKS_PER_NODE')}, but "
        f"SLURM_STEP_NUM_TASKS={size}",
    )
    node = found.below("SLURM_NODEID", len(tasks), "number of nodes in SLURM_STEP_TASKS_PER_NODE")
    local_rank = found.number("SLURM_LOCALID")
    found.check(
        local_rank < tasks[node],
        f"SLURM_LOCALID={local_rank}, but node {node} has {tasks[node]} tasks in "
        "SLURM_STEP_TASKS_PER_NODE",
    )
    words = [str(found.number(name)) for name in ("SLURM_JOB_ID", "SLURM_STEP_ID")]
    return Place(
        starter="slurm",
        rank=sum(tasks[:node]) + local_rank,
        size=size,
        local_rank=local_rank,
        local_size=tasks[node],
        num_nodes=len(tasks),
        job=".".join([*words, str(found.number("SLURM_RESTART_COUNT", 0))]),
    )


def _is_special_step(found: _Variables) -> bool:
    return found.number("SLURM_STEP_ID", _FIRST_SPECIAL_STEP) >= _FIRST_SPECIAL_STEP


def _tasks_of_nodes(found: _Variables, size: int) -> list[int]:
    """Return the number of tasks of each node, which SLURM writes as `2(x3),1`."""
    name = "SLURM_STEP_TASKS_PER_NODE"
    text = found.text(name).strip()
    matches = [_TASKS_OF_NODES.fullmatch(word) for word in text.split(",")]
    tasks: list[int] = []
    for match in matches:
        found.check(match is not None, f"{name}='{text}'" if text else f"{name} is missing")
        if match is not None:
            num_nodes = int(match[2] or 1)
            found.check(num_nodes <= size, f"{name}={text}, but SLURM_STEP_NUM_TASKS={size}")
            tasks += [int(match[1])] * num_nodes
    return tasks


def _hosts_of_grid_engine(found: _Variables) -> int:
    return found.count("NHOSTS") if "PE_HOSTFILE" in found else 0


def _hosts_of_lsf(found: _Variables) -> int:
    """Return the number of hosts in a list such as `n1 2 n2 2`."""
    return len(set(found.text("LSB_MCPU_HOSTS").split()[::2]))


def _refuse_world_of_one(found: _Variables, is_typed: bool) -> None:
    """Refuse variables set by hand that make a world of its own of each of several processes."""
    place = None
    if found.count("TNT_SIZE") <= 1:
        with contextlib.suppress(ValueError):  # then nothing is known that contradicts them
            place = _place_by_starter(found, is_typed)
    if place is not None and place.size > 1:
        names = [name for name in ("TNT_RANK", "TNT_SIZE") if name in found]
        told, size = " and ".join(f"{name}={found.text(name)}" for name in names), place.size
        other = _SIZES[place.starter]
        raise ValueError(
            f"{told} without TNT_JOB_ID, which `tarantella` also sets, contradicts "
            f"{other}={size}: this process is one of {size}, and each would run alone. Unset "
            f"{' and '.join(names)} to run them as {size} ranks, or {other} to run each alone."
        )


def _refuse_half_of_torchrun(found: _Variables) -> None:
    """Refuse one of several processes, such as a pod, that nobody tells where the others are."""
    missing = [name for name in _TORCHRUN if name not in found]
    size = found.count("WORLD_SIZE")
    if missing and size > 1 and found.count("RANK", otherwise=size) < size:
        raise ValueError(
            f"RANK={found.text('RANK')} and WORLD_SIZE={size} say that this process is one of "
            f"{size}, but not where the others are: set {' and '.join(missing)} as well. To run "
            "it as one rank, unset RANK and WORLD_SIZE; to start ranks on this host, start the "
            "script with `tarantella -- train.py`."
        )


def _refuse_unknown_starters(found: _Variables) -> None:
    """Refuse one of several processes that nobody tells how to find the others."""
    if found.count("MV2_COMM_WORLD_SIZE") > 1:
        raise found.error("MV2_COMM_WORLD_SIZE is set without PMI_RANK and MPI_LOCALNRANKS")
    if "PMIX_RANK" in found and "SLURM_STEP_ID" not in found:
        raise found.error("PMIX_RANK is set, as by prterun, but not the number of processes")
    if found.count("HOROVOD_SIZE") > 1:
        raise ValueError(
            f"horovodrun has started this process as one of {found.text('HOROVOD_SIZE')}, but "
            "does not tell them how to find each other. Start the script with `tarantella -n "
            f"{found.text('HOROVOD_SIZE')} -- train.py`, or with `mpirun`."
        )
