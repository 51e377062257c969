"""The plan of a launch: data that says everything about every process, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from tnt_launch.planning import gpi2, ucx
from tnt_launch.planning.gpi2 import MachineFile
from tnt_launch.planning.hardware import Hardware
from tnt_launch.planning.number_of_ranks import choose_ranks
from tnt_launch.planning.rank_environment import RankPlace, rank_environment
from tnt_launch.planning.settings import Settings
from tnt_launch.planning.spec import LaunchSpec
from tnt_launch.planning.tensorflow_environment import tensorflow_log_level
from tnt_launch.planning.variables import OUTPUT_ON_ALL_DEVICES


@dataclass(frozen=True)
class RankPlan:
    """One process.

    Attributes:
        rank: World rank.
        host: Name of the host it runs on.
        argv: Program and arguments, passed on without a shell.
        environment: Variables set on top of those of the process that starts the rank.
    """

    rank: int
    host: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]


@dataclass(frozen=True)
class HostPlan:
    """What one agent starts.

    Attributes:
        host: Name of the host.
        working_directory: Absolute path in which the ranks start.
        ranks: The ranks of this host, ascending.
    """

    host: str
    working_directory: str
    ranks: tuple[RankPlan, ...]


@dataclass(frozen=True)
class LaunchPlan:
    """A whole job.

    Attributes:
        job_id: Random name of the job; its shared memory is `/dev/shm/tnt-<job_id>-...`.
        hosts: One entry per host, in the order of their ranks.
        gpus_per_node: GPUs in use on each host, 0 for ranks on CPUs.
        script: Script or program that the ranks run.
        output_dir: Absolute path of the folder that gets the output of each rank; empty for none.
        shows_all_output: Whether the stdout of every rank is shown instead of rank 0's only.
        tensorflow_log_level: Lines that TensorFlow logs below this level are not shown.
        warnings: What the user should know before the start.
        notes: What may interest the user before the start.
        machine_file: What GPI-2 reads, if the ranks talk through it.
    """

    job_id: str
    hosts: tuple[HostPlan, ...]
    gpus_per_node: int
    shows_all_output: bool
    tensorflow_log_level: int = 0
    warnings: tuple[str, ...] = ()
    machine_file: MachineFile | None = None
    notes: tuple[str, ...] = ()
    script: str = ""
    output_dir: str = ""

    @property
    def ranks(self) -> tuple[RankPlan, ...]:
        """All ranks of the job, ascending."""
        return tuple(rank for host in self.hosts for rank in host.ranks)

    def summary(self) -> str:
        """Say in one line how many ranks run where, on what, with how many threads."""
        threads = self.ranks[0].environment.get("TNT_NUM_THREADS", "TensorFlow's default")
        hosts = ", ".join(host.host for host in self.hosts)
        device = "GPU" if self.gpus_per_node else "CPU"
        size = len(self.ranks)
        noun = "rank" if size == 1 else "ranks"
        return f"{size} {noun} on {hosts}, device {device}, threads per rank: {threads}"


def make_plan(
    spec: LaunchSpec,
    settings: Settings,
    hardware: Hardware,
    environment: Mapping[str, str],
    job_id: str,
    working_directory: str,
    temporary_directory: str = "/tmp",
    job_secret: str = "",
) -> LaunchPlan:
    """Turn a spec into the plan of a job on one host. Pure.

    Args:
        spec: What the user asked for.
        settings: From `read_settings`.
        hardware: What the host has.
        environment: The environment that the ranks inherit.
        job_id: From `make_job_id`.
        working_directory: Absolute path in which the ranks start.
        temporary_directory: Absolute path for a file that the job may need.
        job_secret: From `make_job_secret`, for ranks that talk through UCX.

    Raises:
        LaunchError: If the host has more GPUs than it may have ranks.
    """
    choice = choose_ranks(spec.allow_gpus, spec.ranks_per_node, len(hardware.gpus))
    argv = (*spec.interpreter, *spec.program)
    size = choice.per_node
    machine_file = None
    if gpi2.is_needed(settings):
        machine_file = gpi2.plan_machine_file(temporary_directory, job_id, ["localhost"] * size)
    rendezvous: dict[str, str] = {}
    if ucx.is_needed(settings):
        rendezvous = ucx.rendezvous_variables("127.0.0.1", job_id, job_secret)
    ranks = tuple(
        RankPlan(
            rank,
            hardware.host,
            argv,
            rank_environment(
                RankPlace(rank, size, rank, size, node_rank=0, num_nodes=1),
                job_id,
                hardware.gpus[: choice.gpus_per_node],
                hardware.num_cores,
                settings,
                environment,
                machine_file,
                rendezvous,
            ),
        )
        for rank in range(size)
    )
    return LaunchPlan(
        job_id=job_id,
        hosts=(HostPlan(hardware.host, working_directory, ranks),),
        gpus_per_node=choice.gpus_per_node,
        shows_all_output=settings.get(OUTPUT_ON_ALL_DEVICES) or False,
        tensorflow_log_level=tensorflow_log_level(settings, environment),
        warnings=(*settings.warnings, *filter(None, [choice.warning])),
        machine_file=machine_file,
        notes=tuple(filter(None, [choice.note])),
        script=spec.script,
        output_dir=os.path.join(working_directory, spec.output_dir) if spec.output_dir else "",
    )


def make_job_id() -> str:
    """Draw the name of a new job: 16 hexadecimal digits."""
    return os.urandom(8).hex()
