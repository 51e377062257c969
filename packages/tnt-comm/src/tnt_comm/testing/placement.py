"""Where the ranks of a job run, and the variables that tell them."""

from __future__ import annotations

import random
import secrets
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO

FIRST_PORT, LAST_PORT = 20000, 31744  # below the ports that the kernel gives to clients


@dataclass(frozen=True)
class Host:
    """One host of a job, or something that stands for one: a network namespace, a container.

    Attributes:
        num_ranks: Ranks that run there.
        address: Name or IPv4 address by which the ranks of other hosts reach it.
        prefix: Command that runs a program there, such as `("ip", "netns", "exec", "alpha")`. It
            must become the program (as by `exec`), not wait for it.
    """

    num_ranks: int
    address: str = "localhost"
    prefix: tuple[str, ...] = ()


@dataclass(frozen=True)
class Placement:
    """The ranks of a job on its hosts, in order."""

    hosts: tuple[Host, ...]

    @property
    def size(self) -> int:
        """Number of ranks of the job. Local."""
        return sum(host.num_ranks for host in self.hosts)

    def host_of(self, rank: int) -> Host:
        """Return the host on which `rank` runs. Local."""
        return self.hosts[self._position(rank)[0]]

    def variables(self, rank: int, job_id: str) -> dict[str, str]:
        """Return the `TNT_*` variables that describe `rank`. Local."""
        node, local_rank = self._position(rank)
        return {
            "TNT_RANK": str(rank),
            "TNT_SIZE": str(self.size),
            "TNT_LOCAL_RANK": str(local_rank),
            "TNT_LOCAL_SIZE": str(self.hosts[node].num_ranks),
            "TNT_NODE_RANK": str(node),
            "TNT_NUM_NODES": str(len(self.hosts)),
            "TNT_JOB_ID": job_id,
            "PYTHONUNBUFFERED": "1",
        }

    def _position(self, rank: int) -> tuple[int, int]:
        before = 0
        for node, host in enumerate(self.hosts):
            if rank < before + host.num_ranks:
                return node, rank - before
            before += host.num_ranks
        raise ValueError(f"`rank` must be below {self.size}. Received: {rank}.")


class GaspiVariables:
    """The `GASPI_*` variables of each rank, and the file of host names that rank 0 reads."""

    def __init__(self, placement: Placement) -> None:
        """Write the file, which exists as long as this object. Local."""
        self._addresses = [placement.host_of(rank).address for rank in range(placement.size)]
        self._port = random.SystemRandom().randrange(FIRST_PORT, LAST_PORT)
        self._file: IO[str] = tempfile.NamedTemporaryFile("w", prefix="tnt-machines-")  # noqa: SIM115 - lives as long as the object
        self._file.writelines(f"{address}\n" for address in self._addresses)
        self._file.flush()

    def of_rank(self, rank: int) -> dict[str, str]:
        """Return the variables of `rank`. Local."""
        return {
            "GASPI_RANK": str(rank),
            "GASPI_NRANKS": str(len(self._addresses)),
            "GASPI_SOCKET": str(self._addresses[:rank].count(self._addresses[rank])),
            "GASPI_MFILE": self._file.name,
            # Ports of its own for every job: several may run on a host at once.
            "TNT_GPI2_PORT": str(self._port),
        }

    def close(self) -> None:
        """Remove the file. Local, idempotent."""
        self._file.close()


def rendezvous_variables(placement: Placement) -> dict[str, str]:
    """Return the variables by which the ranks of a new job find each other over UCX. Local."""
    port = random.SystemRandom().randrange(FIRST_PORT, LAST_PORT)
    return {
        "TNT_RENDEZVOUS": f"{placement.hosts[0].address}:{port}",
        "TNT_JOB_SECRET": secrets.token_hex(16),
    }


def places_of(size: int, hosts: Sequence[Host] | None) -> Sequence[Host]:
    """Return `hosts` if given, else this host for all ranks. Pure."""
    if size < 1:
        raise ValueError(f"`size` must be at least 1. Received: {size}.")
    if hosts is None:
        return (Host(size),)
    if sum(host.num_ranks for host in hosts) != size:
        raise ValueError(f"`hosts` must be for {size} ranks in all. Received: {list(hosts)}.")
    return hosts
