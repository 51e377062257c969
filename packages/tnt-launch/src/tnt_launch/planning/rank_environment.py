"""The one place that writes environment variables for ranks, and the files that they name."""

# A script may import TensorFlow before `tarantella`, so only the environment comes early enough.

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tnt_launch.planning.host_facts import LOOPBACK, HostFacts
from tnt_launch.planning.lanes import LanesOfRank
from tnt_launch.planning.settings import Settings
from tnt_launch.planning.variables import GPUS_PER_NODE, LOG_LEVEL, NUM_THREADS, TRANSPORT

_FIRST_GPI2_PORT, _LAST_GPI2_PORT = 20000, 31744  # a job uses 1024 of them; clients get higher ones
_FIRST_UCX_PORT, _LAST_UCX_PORT = 20000, 32768  # below those that the kernel gives to clients


@dataclass(frozen=True)
class MachineFile:
    """A file of host names that exists while the job runs; rank 0 reads it."""

    path: str
    hosts: tuple[str, ...]  # of every rank, by rank: a name or an IPv4 address


def machines_of(
    settings: Settings, hosts: Sequence[HostFacts], ranks_of_hosts: Sequence[int]
) -> tuple[str, ...]:
    """Return the host of every rank, by rank; nothing if none may talk through GPI-2. Pure."""
    # Between several hosts the ranks themselves decide, by the libraries that they find.
    is_wanted = settings.get(TRANSPORT) == "gpi2"
    if len(hosts) == 1:
        return ("localhost",) * ranks_of_hosts[0] if is_wanted else ()
    if not is_wanted and settings.get(TRANSPORT) not in (None, "auto"):
        return ()
    pairs = zip(hosts, ranks_of_hosts, strict=True)
    return tuple(host.address for host, count in pairs for _ in range(count))


def plan_machine_file(
    folder: str, job_id: str, node_rank: int, machines: Sequence[str]
) -> MachineFile | None:
    """Choose name and content of a host's file, `None` if none is needed. Pure."""
    # Hosts may share the folder, so that the name has the job and the host.
    if not machines:
        return None
    return MachineFile(os.path.join(folder, f"tnt-{job_id}-machines-{node_rank}"), tuple(machines))


def gaspi_variables(file: MachineFile, rank: int, job_id: str) -> dict[str, str]:
    """Choose the variables from which GPI-2 knows the place of a rank. Pure."""
    # The job chooses the ports, so that jobs on a host do not meet.
    before = file.hosts[:rank]
    return {
        "GASPI_RANK": str(rank),
        "GASPI_NRANKS": str(len(file.hosts)),
        "GASPI_SOCKET": str(before.count(file.hosts[rank])),
        "GASPI_MFILE": file.path,
        "TNT_GPI2_PORT": str(
            _FIRST_GPI2_PORT + int(job_id, 16) % (_LAST_GPI2_PORT - _FIRST_GPI2_PORT)
        ),
    }


def rendezvous_of(
    settings: Settings, hosts: Sequence[HostFacts], job_id: str, secret: str
) -> dict[str, str]:
    """Choose the variables by which the ranks of a job find and trust each other. Pure."""
    # Between several hosts the ranks themselves decide, by the libraries that they find.
    choice = settings.get(TRANSPORT)
    if choice != "ucx" and not (len(hosts) > 1 and choice in (None, "auto")):
        return {}
    address = hosts[0].address if len(hosts) > 1 else LOOPBACK
    host = f"[{address}]" if ":" in address else address
    port = _FIRST_UCX_PORT + int(job_id, 16) % (_LAST_UCX_PORT - _FIRST_UCX_PORT)
    return {"TNT_RENDEZVOUS": f"{host}:{port}", "TNT_JOB_SECRET": secret}


def make_job_secret() -> str:
    """Draw the secret of a new job: 32 hexadecimal digits."""
    return os.urandom(16).hex()


# TensorFlow threads that run whole operations; one follows backpropagation, one does the rest.
MIN_INTER_OP_THREADS = 2

_THREADS_OF_AN_OPERATION = "TF_NUM_INTRAOP_THREADS"
_LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"


def num_threads(settings: Settings, inherited: Mapping[str, str], fair: int | None) -> int | None:
    """Choose the threads of a rank; `None` leaves the choice to TensorFlow. Pure."""
    stated = settings.get(NUM_THREADS)
    if stated is not None:
        return stated
    of_tensorflow = inherited.get(_THREADS_OF_AN_OPERATION)
    if of_tensorflow is not None:
        return int(of_tensorflow) or None if of_tensorflow.isdecimal() else None
    return fair


def thread_variables(threads: int | None, lanes: LanesOfRank | None = None) -> dict[str, str]:
    """Return the variables that set the sizes of thread pools. Pure."""
    if threads is None:
        return {}
    num_operations = threads if lanes is None else lanes.num_operations(threads)
    return {
        _THREADS_OF_AN_OPERATION: str(threads),
        "TF_NUM_INTEROP_THREADS": str(max(num_operations, MIN_INTER_OP_THREADS)),
        "OMP_NUM_THREADS": str(threads),
    }


def log_variables(settings: Settings) -> dict[str, str]:
    """Return the variable that says what TensorFlow's C++ part logs. Pure."""
    # Each rank would print the same start-up lines.
    return {_LOG_LEVEL: "0" if settings.get(LOG_LEVEL) == "DEBUG" else "3"}


def tensorflow_log_level(settings: Settings, inherited: Mapping[str, str]) -> int:
    """Return the level that is in effect: the user's own, or that of `log_variables`. Pure."""
    text = {**log_variables(settings), **inherited, **settings.exports}[_LOG_LEVEL]
    return int(text) if text in ("0", "1", "2", "3") else 0


class RankPlace(NamedTuple):
    """Where a rank stands in its job; all numbers start at 0."""

    rank: int
    size: int
    local_rank: int
    local_size: int
    node_rank: int
    num_nodes: int
    restart_count: int = 0


def rank_environment(
    place: RankPlace,
    job_id: str,
    gpus: tuple[str, ...],
    fair_threads: int | None,
    settings: Settings,
    inherited: Mapping[str, str],
    machine_file: MachineFile | None = None,
    rendezvous: Mapping[str, str] | None = None,
    lanes: LanesOfRank | None = None,
) -> dict[str, str]:
    """Choose the variables that a rank gets on top of the inherited ones. Pure."""
    stated = settings.environment()
    numbers = place._asdict().items()
    variables = {f"TNT_{name.upper()}": str(number) for name, number in numbers}
    variables["TNT_JOB_ID"] = job_id
    threads = num_threads(settings, inherited, fair_threads)
    if threads is not None:
        variables[NUM_THREADS.name] = NUM_THREADS.kind.write(threads)
    defaults = {
        # A line must be visible when it is printed, not when a buffer of 8 KiB is full: stdout is a
        # pipe or a file for most ranks, and a rank that is killed would lose what it holds.
        "PYTHONUNBUFFERED": "1",
        # Python orders sets of texts anew in each process; ranks must have them in one order, and
        # jobs with lanes in that of all others.
        "PYTHONHASHSEED": str(zlib.crc32(job_id.encode())) if lanes is None else "0",
        **log_variables(settings),
        **thread_variables(threads, lanes),
        # GPU memory is taken as needed, not all of it at once.
        **({"TF_FORCE_GPU_ALLOW_GROWTH": "true"} if gpus else {}),
    }
    variables.update({name: text for name, text in defaults.items() if name not in inherited})
    if machine_file is not None:
        variables.update(gaspi_variables(machine_file, place.rank, job_id))
    variables.update(rendezvous or {})
    variables.update(stated)
    # CUDA and ROCm show a rank its own GPU, or none.
    own = gpus[place.local_rank] if gpus else "-1"
    variables.update({"CUDA_VISIBLE_DEVICES": own, "HIP_VISIBLE_DEVICES": own})
    return {**variables, GPUS_PER_NODE.name: GPUS_PER_NODE.kind.write(len(gpus))}
