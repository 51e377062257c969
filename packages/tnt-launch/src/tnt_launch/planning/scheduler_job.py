"""On which hosts a launcher runs its job, by what is around it: a scheduler, or others like it."""

from __future__ import annotations

import zlib
from collections.abc import Callable, MutableMapping
from dataclasses import replace

from tnt_launch.errors import LaunchError
from tnt_launch.planning.allocation import (
    SCHEDULER_JOB,
    Allocation,
    Environment,
    find_allocation,
    is_task_of_srun,
    read_tasks,
    scheduler_job_of,
    scheduler_of,
)
from tnt_launch.planning.hosts import split_host_list
from tnt_launch.planning.spec import SSH, LaunchSpec, Rendezvous
from tnt_launch.planning.variables import JOB_VARIABLES, RENDEZVOUS

_FIRST_PORT, _LAST_PORT = 20000, 32768  # below those that the kernel gives to clients

# What starts processes that are told how many they are, by which variable, if these are there.
_STARTERS = (
    ("mpirun", "OMPI_COMM_WORLD_SIZE", ("OMPI_COMM_WORLD_RANK",)),
    ("mpirun", "PMI_SIZE", ("PMI_RANK", "MPI_LOCALNRANKS")),
    ("torchrun", "WORLD_SIZE", ("TORCHELASTIC_RUN_ID",)),
    ("an operator for PyTorch", "WORLD_SIZE", ("RANK", "MASTER_ADDR", "MASTER_PORT")),
)


def in_scheduler_job(
    spec: LaunchSpec, environment: Environment, read_file: Callable[[str], str]
) -> LaunchSpec:
    """Add the hosts of the job around this process, unless some were named. Pure but for files."""
    if {"TNT_RANK", "TNT_JOB_ID"} & environment.keys():  # what ranks start is on one host
        spec = replace(spec, warnings=_warnings_inside_a_rank(spec, environment, read_file))
    elif spec.rendezvous is None:
        _refuse_several_launchers(environment)
        if is_task_of_srun(environment):
            spec = _met_by_srun(spec, environment)
        elif spec.hosts and (scheduler := scheduler_of(environment)):
            note = f"the hosts are those of the command line, not those of the {scheduler} job"
            spec = replace(spec, notes=(*spec.notes, note))
        elif not spec.hosts:
            allocation = find_allocation(environment, read_file)
            spec = spec if allocation is None else _on_allocation(spec, allocation)
    spec = _with_ranks(_with_hosts(spec))
    if spec.allocation is not None and spec.ranks_per_node is not None:
        _check_tasks(spec, spec.allocation.scheduler, spec.ranks_per_node)
    return spec


def _warnings_inside_a_rank(
    spec: LaunchSpec, environment: Environment, read_file: Callable[[str], str]
) -> tuple[str, ...]:
    """Warn where a launcher in a rank uses less than a scheduler has given."""
    allocation = None if spec.hosts else find_allocation(environment, read_file)
    if "TNT_RANK" not in environment or allocation is None or len(allocation.hosts) == 1:
        return ()
    return (
        "TNT_RANK is set, as in a process that a rank has started: of the "
        f"{len(allocation.hosts)} hosts of the {allocation.scheduler} job only this one is used. "
        "To use them all, begin the script with: unset TNT_RANK TNT_JOB_ID [runs-alone]",
    )


def forget_other_job(environment: MutableMapping[str, str], step_of_slurm: str) -> None:
    """Remove what describes a rank, or a step of SLURM, that has submitted this job. Local."""
    here, job_of_rank = scheduler_job_of(environment), environment.get(SCHEDULER_JOB)
    forgotten: list[str] = []
    if here and job_of_rank is not None and here != job_of_rank:
        forgotten += [*JOB_VARIABLES, RENDEZVOUS.name]
    if step_of_slurm.endswith(".batch"):  # for which SLURM sets no such variables
        forgotten += [name for name in environment if name.startswith("SLURM_STEP")]
    for name in forgotten:
        environment.pop(name, None)


def read_file(path: str) -> str:
    """Return the content of a file of the scheduler. Local."""
    with open(path, encoding="utf-8") as file:
        return file.read()


def _refuse_several_launchers(environment: Environment) -> None:
    for starter, variable, marks in _STARTERS:
        count = environment.get(variable, "")
        if environment.keys() >= {*marks} and count.isdecimal() and int(count) > 1:
            raise LaunchError(
                f"{starter} has started {count} launchers ({variable}), and each would start its "
                "own job. Let it start the ranks: python SCRIPT; or start one launcher without "
                "it: tarantella [options] -- SCRIPT."
            )


def _met_by_srun(spec: LaunchSpec, environment: Environment) -> LaunchSpec:
    """Let the launchers that srun has started, one on each host, meet."""
    hosts = split_host_list(environment.get("SLURM_STEP_NODELIST", ""))
    tasks = read_tasks(environment.get("SLURM_STEP_TASKS_PER_NODE", ""))
    node = environment.get("SLURM_NODEID", "")
    if sum(tasks) == 1:
        return spec
    if len(tasks) != len(hosts) or not node.isdecimal() or int(node) >= len(hosts):
        raise LaunchError(
            "srun has started this launcher, but SLURM_STEP_NODELIST, SLURM_STEP_TASKS_PER_NODE "
            "and SLURM_NODEID do not say on which hosts it has started others. Give --nnodes, "
            "--node-rank and --rendezvous."
        )
    if set(tasks) != {1} or spec.hosts:
        raise LaunchError(
            f"srun has started {sum(tasks)} launchers on {len(hosts)} hosts, and each would start "
            "its own job. Let it start the ranks: srun [options] python SCRIPT; or one launcher "
            "on each host: srun --ntasks-per-node=1 tarantella -n N -- SCRIPT; or start one "
            "launcher without it: tarantella [options] -- SCRIPT."
        )
    # Another step, or the same one after a requeue, must not meet this one.
    names = ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT")
    number = zlib.crc32("x".join(environment.get(name, "0") for name in names).encode())
    port = _FIRST_PORT + number % (_LAST_PORT - _FIRST_PORT)
    return replace(spec, rendezvous=Rendezvous(len(hosts), int(node), hosts[0], port))


def _on_allocation(spec: LaunchSpec, allocation: Allocation) -> LaunchSpec:
    if spec.ssh != SSH:  # the user's own way to start something there
        return replace(spec, hosts=allocation.hosts)
    return replace(spec, hosts=allocation.hosts, ssh=allocation.command, allocation=allocation)


def _with_hosts(spec: LaunchSpec) -> LaunchSpec:
    if spec.num_hosts is None:
        return spec
    known = max(len(spec.hosts), 1)
    if spec.rendezvous is not None or not 1 <= spec.num_hosts <= known:
        raise LaunchError(
            f"-N {spec.num_hosts} needs that many of the hosts that the scheduler has allocated "
            f"or -H names: {'none' if spec.rendezvous is not None else known}."
        )
    return replace(spec, hosts=spec.hosts[: spec.num_hosts])


def _with_ranks(spec: LaunchSpec) -> LaunchSpec:
    """Divide the number of ranks of the whole job among its hosts."""
    if spec.num_ranks is None:
        return spec
    if spec.ranks_per_node is not None:
        raise LaunchError("-np is the number of all ranks, -n that of each host. Give one of them.")
    count = max(len(spec.hosts), 1) if spec.rendezvous is None else spec.rendezvous.num_nodes
    if spec.hosts and spec.num_ranks == sum(host.slots or 0 for host in spec.hosts):
        return spec
    if spec.num_ranks < 1 or spec.num_ranks % count:
        raise LaunchError(
            f"-np {spec.num_ranks} cannot be divided evenly among {count} hosts. Give the number "
            f"of ranks on each host: -n."
        )
    return replace(spec, ranks_per_node=spec.num_ranks // count)


def _check_tasks(spec: LaunchSpec, scheduler: str, asked: int) -> None:
    for host in spec.hosts:
        if host.slots is not None and host.slots < asked:
            raise LaunchError(
                f"-n {asked} asks for {asked} ranks on each host, {asked * len(spec.hosts)} on "
                f"{len(spec.hosts)} in all, but the {scheduler} job has "
                f"{sum(host.slots or 0 for host in spec.hosts)} tasks there, {host.slots} on "
                f"{host.name}. Leave -n out for a rank for each task, or ask {scheduler} for "
                f"{asked} tasks on each host."
            )
