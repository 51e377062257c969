"""What GPI-2 and UCX need besides `TNT_*` variables of the user: files, ports, a secret."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from tnt_launch.planning.host_facts import LOOPBACK, HostFacts
from tnt_launch.planning.settings import Settings
from tnt_launch.planning.variables import TRANSPORT

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
