"""Plan what GPI-2 needs besides `TNT_*` variables: its own variables, and a file of host names."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from tnt_launch.planning.settings import Settings
from tnt_launch.planning.variables import TRANSPORT

FIRST_PORT, LAST_PORT = 20000, 31744  # a job uses 1024 of them; clients get higher ones


@dataclass(frozen=True)
class MachineFile:
    """A file that exists while the job runs; rank 0 reads it.

    Attributes:
        path: Absolute path.
        hosts: The host of every rank, by rank: a name or an IPv4 address.
    """

    path: str
    hosts: tuple[str, ...]


def is_needed(settings: Settings) -> bool:
    """Return whether the ranks of one host are to talk through GPI-2. Pure."""
    return settings.get(TRANSPORT) == "gpi2"


def plan_machine_file(folder: str, job_id: str, hosts: Sequence[str]) -> MachineFile:
    """Choose name and content of the file. Pure.

    Args:
        folder: Absolute path of a folder for temporary files.
        job_id: Name of the job; makes the name of the file its own.
        hosts: The host of every rank, by rank.
    """
    return MachineFile(os.path.join(folder, f"tnt-{job_id}-machines"), tuple(hosts))


def gaspi_variables(file: MachineFile, rank: int, job_id: str) -> dict[str, str]:
    """Choose the variables from which GPI-2 knows the place of a rank. Pure.

    Args:
        file: The machine file of the job.
        rank: World rank.
        job_id: 16 hexadecimal digits; they choose the ports, so that jobs on a host do not meet.
    """
    before = file.hosts[:rank]
    return {
        "GASPI_RANK": str(rank),
        "GASPI_NRANKS": str(len(file.hosts)),
        "GASPI_SOCKET": str(before.count(file.hosts[rank])),
        "GASPI_MFILE": file.path,
        "TNT_GPI2_PORT": str(FIRST_PORT + int(job_id, 16) % (LAST_PORT - FIRST_PORT)),
    }
