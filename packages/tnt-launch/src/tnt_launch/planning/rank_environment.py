"""The one place that writes environment variables for ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tnt_launch.planning.gpi2 import MachineFile, gaspi_variables
from tnt_launch.planning.spec import LaunchSpec
from tnt_launch.planning.variables import JOB_VARIABLES, USER_VARIABLES, check_variables, parse_bool

WRITTEN_VARIABLES = (*JOB_VARIABLES, *USER_VARIABLES)
"""Every `TNT_*` variable that a rank may find: those of the job always, the others if set."""


@dataclass(frozen=True)
class RankPlace:
    """Where a rank stands in its job; all numbers start at 0."""

    rank: int
    size: int
    local_rank: int
    local_size: int
    node_rank: int
    num_nodes: int


def user_settings(spec: LaunchSpec, environment: Mapping[str, str]) -> dict[str, str]:
    """Join what the user set: environment, then options, then `-x`; later ones win. Pure.

    Returns:
        The `TNT_*` variables in effect, other than those of the job, and all of `-x`.

    Raises:
        LaunchError: If a variable is malformed.
    """
    settings = {
        name: value
        for name, value in environment.items()
        if name.startswith("TNT_") and name not in JOB_VARIABLES
    }
    settings.update(_from_options(spec, has_alias="TNT_FUSION_THRESHOLD" in settings))
    settings.update(spec.exports)
    check_variables(settings)
    return settings


def is_output_on_all(settings: Mapping[str, str]) -> bool:
    """Whether the stdout of all ranks is to be shown, given the result of `user_settings`. Pure."""
    return parse_bool(settings.get("TNT_OUTPUT_ON_ALL_DEVICES", "0"))


def rank_environment(
    place: RankPlace,
    job_id: str,
    gpus_per_node: int,
    num_cores: int,
    settings: Mapping[str, str],
    inherited: Mapping[str, str],
    machine_file: MachineFile | None = None,
) -> dict[str, str]:
    """Choose the variables that a rank gets on top of the inherited ones. Pure.

    Args:
        place: Where the rank stands.
        job_id: Random name of the job, of letters and digits; names its shared memory.
        gpus_per_node: GPUs in use on the host, 0 for ranks on CPUs.
        num_cores: Cores of the host, shared evenly by its ranks.
        settings: From `user_settings`.
        inherited: The environment in which the ranks are started.
        machine_file: What GPI-2 reads, if the ranks talk through it.
    """
    variables = {
        "TNT_RANK": str(place.rank),
        "TNT_SIZE": str(place.size),
        "TNT_LOCAL_RANK": str(place.local_rank),
        "TNT_LOCAL_SIZE": str(place.local_size),
        "TNT_NODE_RANK": str(place.node_rank),
        "TNT_NUM_NODES": str(place.num_nodes),
        "TNT_JOB_ID": job_id,
    }
    defaults = _defaults(place.local_size, gpus_per_node, num_cores, settings)
    for name, value in defaults.items():
        if name not in inherited:
            variables[name] = value
    if machine_file is not None:
        variables.update(gaspi_variables(machine_file, place.rank, job_id))
    return {**variables, **settings, "TNT_GPUS_PER_NODE": str(gpus_per_node)}


def _defaults(
    local_size: int, gpus_per_node: int, num_cores: int, settings: Mapping[str, str]
) -> dict[str, str]:
    """Variables that the user's own values replace."""
    defaults = {
        # A line must be visible when it is printed, not when a buffer of 8 KiB is full: stdout is a
        # pipe or a file for most ranks, and a rank that is killed would lose what it holds.
        "PYTHONUNBUFFERED": "1",
        # Without it every rank prints the same start-up messages of TensorFlow's C++ part (devices,
        # instruction sets). 2 keeps its errors; messages and warnings of the Python part stay too.
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }
    threads = settings.get("TNT_NUM_THREADS")
    if threads is None and local_size > 1:
        # Several ranks with a thread per core each would take turns on the cores; one rank alone
        # keeps what TensorFlow chooses.
        threads = defaults["TNT_NUM_THREADS"] = str(max(1, num_cores // local_size))
    if threads is not None:
        defaults["OMP_NUM_THREADS"] = threads
    return defaults


def _from_options(spec: LaunchSpec, has_alias: bool) -> dict[str, str]:
    options: dict[str, object] = {
        "TNT_LOG_LEVEL": spec.log_level,
        "TNT_LOG_ON_ALL_DEVICES": _bit(spec.log_on_all_devices),
        "TNT_OUTPUT_ON_ALL_DEVICES": _bit(spec.output_on_all_devices),
        "TNT_FUSION_THRESHOLD_KB": spec.fusion_threshold_kb,
        # An inherited value under the other name would contradict the option.
        "TNT_FUSION_THRESHOLD": spec.fusion_threshold_kb if has_alias else None,
        "TNT_WIRE_DTYPE": spec.wire_dtype,
        "TNT_TIMEOUT_S": spec.timeout_s,
    }
    return {name: str(value) for name, value in options.items() if value is not None}


def _bit(flag: bool | None) -> int | None:
    return None if flag is None else int(flag)
