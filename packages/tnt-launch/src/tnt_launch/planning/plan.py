"""The plan of a launch: data that says everything about every process."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tnt_launch.errors import LaunchError
from tnt_launch.log import LOGGER, write_to_stderr
from tnt_launch.numbers import format_ranges
from tnt_launch.planning.binding import HostBinding, bind
from tnt_launch.planning.host_facts import HostFacts, inspect_host
from tnt_launch.planning.lanes import (
    LanesOfRank,
    check_lanes,
    threads_of_lane,
    warning_of_unequal_hosts,
)
from tnt_launch.planning.number_of_ranks import JobRanks, choose_ranks, ranks_of_hosts
from tnt_launch.planning.rank_environment import (
    MachineFile,
    RankPlace,
    machines_of,
    make_job_secret,
    plan_machine_file,
    rank_environment,
    rendezvous_of,
    tensorflow_log_level,
)
from tnt_launch.planning.settings import Settings, settings_and_log
from tnt_launch.planning.spec import LaunchSpec, check_program
from tnt_launch.planning.variables import (
    GRACE_S,
    LANES,
    NUM_THREADS,
    OUTPUT_ON_ALL_DEVICES,
    SUM_TREE,
)
from tnt_launch.planning.visible_gpus import FoundGpus, warnings_of_gpus


@dataclass(frozen=True)
class RankPlan:
    """One process."""

    rank: int
    host: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]  # set on top of that of the process that starts the rank
    cpus: tuple[int, ...] = ()  # those that the rank is kept on, ascending; empty for all
    place: str = ""  # what it is kept on, in words
    gpu: str = ""  # which one it gets and where that is, in words; empty for none

    def binding(self) -> str:
        """Say in one line where the rank is kept, with how many threads, on which GPU."""
        threads = self.environment.get(NUM_THREADS.name, "TensorFlow's number of")
        device = self.gpu or "no GPU"
        noun = "thread" if threads == "1" else "threads"
        lanes = self._lanes()
        return f"rank {self.rank} on {self.host}: {self.place}, {lanes}{threads} {noun}, {device}"

    def _lanes(self) -> str:
        if LANES.name not in self.environment:
            return ""
        count = int(self.environment[LANES.name]) // int(self.environment["TNT_SIZE"])
        own = range(self.rank * count, (self.rank + 1) * count)
        return f"{'lane' if count == 1 else 'lanes'} {format_ranges(own)} of "


@dataclass(frozen=True)
class HostPlan:
    """What one agent starts."""

    host: str
    working_directory: str
    ranks: tuple[RankPlan, ...]
    # what GPI-2 reads there, if the ranks may talk through it
    machine_file: MachineFile | None = None
    node_rank: int = 0


@dataclass(frozen=True)
class LaunchPlan:
    """A whole job."""

    job_id: str  # random; part of the names of its files in shared memory
    hosts: tuple[HostPlan, ...]  # in the order of their ranks
    gpus_per_node: int  # 0 for ranks on CPUs
    shows_all_output: bool  # the stdout of every rank, not of rank 0 alone
    tensorflow_log_level: int = 0  # lines that TensorFlow logs below it are not shown
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    script: str = ""  # what its ranks run, for people
    output_dir: str = ""  # absolute path
    keeps_output: bool = False  # which is there from before a restart
    grace_s: float = GRACE_S.default  # that ranks have to leave when a scheduler asks for it

    @property
    def ranks(self) -> tuple[RankPlan, ...]:
        """All ranks of the job, ascending."""
        return tuple(rank for host in self.hosts for rank in host.ranks)

    def summary(self) -> str:
        """Say in one line how many ranks run where, on what, with how many threads."""
        variables = self.ranks[0].environment
        threads = variables.get(NUM_THREADS.name, "TensorFlow's default")
        hosts = ", ".join(host.host for host in self.hosts)
        device = "GPU" if self.gpus_per_node else "CPU"
        size = len(self.ranks)
        noun = "rank" if size == 1 else "ranks"
        lanes = variables.get(LANES.name)
        of_threads = f"{lanes} lanes, threads per lane" if lanes else "threads per rank"
        tree = variables.get(SUM_TREE.name)
        order = f", order of sums: {tree}" if tree else ""
        return f"{size} {noun} on {hosts}, device {device}, {of_threads}: {threads}{order}"

    @property
    def lane_threads(self) -> int | None:
        """The threads of a lane, `None` without lanes or if TensorFlow chooses them."""
        variables = self.ranks[0].environment
        is_known = LANES.name in variables and NUM_THREADS.name in variables
        return int(variables[NUM_THREADS.name]) if is_known else None


def make_plan(
    spec: LaunchSpec,
    settings: Settings,
    hosts: Sequence[HostFacts],
    environment: Mapping[str, str],
    job_id: str,
    job_secret: str = "",
) -> LaunchPlan:
    """Turn a spec into the plan of a job. Pure."""
    ranks = choose_job_ranks(spec, hosts)
    size = sum(ranks.per_host)
    check_lanes(settings, size)
    _check_sum_tree(settings, size)
    lanes = settings.get(LANES)
    job = _Job(
        spec,
        settings,
        environment,
        job_id,
        size=size,
        num_nodes=len(hosts),
        uses_gpus=ranks.uses_gpus,
        machines=machines_of(settings, hosts, ranks.per_host),
        rendezvous=rendezvous_of(settings, hosts, job_id, job_secret),
        lane_threads=None if lanes is None else spec.lane_threads or threads_of_lane(lanes, hosts),
    )
    bindings = [
        bind(spec, host, local_size, ranks.uses_gpus)
        for host, local_size in zip(hosts, ranks.per_host, strict=True)
    ]
    plans: list[HostPlan] = []
    for host, binding in zip(hosts, bindings, strict=True):
        first_rank = sum(len(plan.ranks) for plan in plans)
        plans.append(_plan_host(job, host, binding, len(plans), first_rank))
    return LaunchPlan(
        job_id=job_id,
        hosts=tuple(plans),
        gpus_per_node=min(ranks.per_host) if ranks.uses_gpus else 0,
        shows_all_output=settings.get(OUTPUT_ON_ALL_DEVICES) or False,
        tensorflow_log_level=tensorflow_log_level(settings, environment),
        warnings=(
            *settings.warnings,
            *ranks.warnings,
            *(binding.warning for binding in bindings if binding.warning),
            *_warnings_of_gpus(hosts, ranks),
            *filter(None, [warning_of_unequal_hosts(settings, hosts)]),
        ),
        notes=ranks.notes,
        script=spec.script,
        output_dir=os.path.join(hosts[0].working_directory, spec.output_dir)
        if spec.output_dir
        else "",
        keeps_output=spec.restart_count > 0,
        grace_s=settings.get(GRACE_S) or GRACE_S.default,
    )


@dataclass(frozen=True)
class _Job:
    """What the plans of all hosts have in common."""

    spec: LaunchSpec
    settings: Settings
    environment: Mapping[str, str]
    job_id: str
    size: int
    num_nodes: int
    uses_gpus: bool
    machines: tuple[str, ...]
    rendezvous: Mapping[str, str]
    lane_threads: int | None  # without a number that the user states; `None` without lanes


def choose_job_ranks(spec: LaunchSpec, hosts: Sequence[HostFacts]) -> JobRanks:
    """Decide how many ranks run on each host of a job, and on which kind of device. Pure."""
    num_gpus = [len(host.gpus) for host in hosts]
    if spec.hosts:
        return ranks_of_hosts(spec.hosts, spec.allow_gpus, spec.ranks_per_node, num_gpus)
    return choose_ranks(spec.allow_gpus, spec.ranks_per_node, num_gpus[0], hosts[0].gpu_list)


def _warnings_of_gpus(hosts: Sequence[HostFacts], ranks: JobRanks) -> list[str]:
    warnings = []
    for host, count in zip(hosts, ranks.per_host, strict=True):
        found = FoundGpus(host.gpus, host.gpu_list, host.gpu_remark)
        warnings += warnings_of_gpus(host.host, found, count if ranks.uses_gpus else 0)
    return warnings


def _check_sum_tree(settings: Settings, size: int) -> None:
    tree = settings.get(SUM_TREE)
    if tree is not None and math.prod(int(count) for count in tree.split("x")) != size:
        raise LaunchError(
            f"The product of TNT_SUM_TREE={tree} must be the number of ranks, {size}. For h hosts "
            f"of r ranks it is rxh. Correct it or unset it."
        )


def _plan_host(
    job: _Job, host: HostFacts, binding: HostBinding, node_rank: int, first_rank: int
) -> HostPlan:
    local_size = len(binding.ranks)
    interpreter = job.spec.interpreter if host.interpreter is None else host.interpreter
    file = plan_machine_file(host.temporary_directory, job.job_id, node_rank, job.machines)
    lanes = job.settings.get(LANES)
    gpus = host.gpus[:local_size] if job.uses_gpus else ()
    ranks = []
    for local_rank, bound in enumerate(binding.ranks):
        rank = first_rank + local_rank
        place = RankPlace(
            rank,
            job.size,
            local_rank,
            local_size,
            node_rank,
            job.num_nodes,
            job.spec.restart_count,
        )
        variables = rank_environment(
            place,
            job.job_id,
            tuple(gpu.name for gpu in gpus),
            bound.threads if lanes is None else job.lane_threads,
            job.settings,
            job.environment,
            file,
            job.rendezvous,
            None
            if lanes is None
            else LanesOfRank(lanes // job.size, bound.threads or host.num_cores),
        )
        argv = (*bound.prefix, *interpreter, *job.spec.program)
        gpu = gpus[local_rank].words() if gpus else ""
        ranks.append(RankPlan(rank, host.host, argv, variables, bound.cpus, bound.place, gpu))
    return HostPlan(host.host, host.working_directory, tuple(ranks), file, node_rank)


def make_job_id() -> str:
    """Draw the name of a new job: 16 hexadecimal digits."""
    return os.urandom(8).hex()


def tell_remarks(spec: LaunchSpec, plan: LaunchPlan) -> None:
    """Log what a plan has to tell the user, and where ranks are kept if the user wants that."""
    for warning in plan.warnings:
        LOGGER.warning(warning)
    for note in plan.notes:
        LOGGER.info(note)
    if spec.report_bindings:
        for rank in plan.ranks:
            write_to_stderr(f"tarantella: {rank.binding()}\n".encode(errors="backslashreplace"))


def plan_on_this_host(spec: LaunchSpec) -> LaunchPlan:
    """Plan a job with this process's environment and folder, and log what the plan remarks."""
    check_program(spec)
    settings = settings_and_log(spec)
    host = inspect_host(settings, os.environ, spec.allow_gpus)
    plan = make_plan(spec, settings, [host], os.environ, make_job_id(), make_job_secret())
    tell_remarks(spec, plan)
    return plan
