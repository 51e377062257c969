"""The one place that writes environment variables for ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tnt_launch.planning.gpi2 import MachineFile, gaspi_variables
from tnt_launch.planning.settings import Settings
from tnt_launch.planning.tensorflow_environment import (
    log_variables,
    memory_variables,
    num_threads,
    thread_variables,
    visible_device_variables,
)
from tnt_launch.planning.variables import GPUS_PER_NODE, NUM_THREADS


@dataclass(frozen=True)
class RankPlace:
    """Where a rank stands in its job; all numbers start at 0."""

    rank: int
    size: int
    local_rank: int
    local_size: int
    node_rank: int
    num_nodes: int


def rank_environment(
    place: RankPlace,
    job_id: str,
    gpus: tuple[str, ...],
    fair_threads: int | None,
    settings: Settings,
    inherited: Mapping[str, str],
    machine_file: MachineFile | None = None,
    rendezvous: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Choose the variables that a rank gets on top of the inherited ones. Pure."""
    stated = settings.environment()
    variables = {
        "TNT_RANK": str(place.rank),
        "TNT_SIZE": str(place.size),
        "TNT_LOCAL_RANK": str(place.local_rank),
        "TNT_LOCAL_SIZE": str(place.local_size),
        "TNT_NODE_RANK": str(place.node_rank),
        "TNT_NUM_NODES": str(place.num_nodes),
        "TNT_JOB_ID": job_id,
    }
    threads = num_threads(settings, inherited, fair_threads)
    if threads is not None:
        variables[NUM_THREADS.name] = NUM_THREADS.kind.write(threads)
    defaults = {
        # A line must be visible when it is printed, not when a buffer of 8 KiB is full: stdout is a
        # pipe or a file for most ranks, and a rank that is killed would lose what it holds.
        "PYTHONUNBUFFERED": "1",
        **log_variables(settings),
        **thread_variables(threads),
        **memory_variables(gpus),
    }
    variables.update({name: text for name, text in defaults.items() if name not in inherited})
    if machine_file is not None:
        variables.update(gaspi_variables(machine_file, place.rank, job_id))
    variables.update(rendezvous or {})
    variables.update(stated)
    variables.update(visible_device_variables(gpus, place.local_rank))
    return {**variables, GPUS_PER_NODE.name: GPUS_PER_NODE.kind.write(len(gpus))}
