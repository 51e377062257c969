"""Where processes of a start meet, and by what they trust each other: a way for each starter."""

from __future__ import annotations

import json
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from tnt_comm.errors import CommError
from tnt_comm.start import munge
from tnt_comm.start.authentication import SameUser, SharedSecret, Trust, derived
from tnt_comm.start.endpoints import (
    NetworkEndpoint,
    candidate_ports,
    listen_at,
    local_endpoint,
    own_addresses,
)
from tnt_comm.start.home_secret import home_secret
from tnt_comm.start.place import Place
from tnt_comm.start.pmi1 import Pmi1
from tnt_comm.start.pmix import Pmix
from tnt_comm.start.rendezvous import Endpoint, RendezvousPlan
from tnt_comm.start.settings import Settings
from tnt_comm.start.slurm import addresses_of_node, first_node


class ProcessManager(Protocol):
    """What has started all processes, and carries a text of rank 0 to the others, privately."""

    def broadcast(self, text: str, is_root: bool) -> str:
        """Return the text of rank 0. Collective."""

    def close(self) -> None:
        """Say goodbye: that this process ends is no failure."""


def manager_of(
    place: Place, settings: Settings, environment: Mapping[str, str]
) -> ProcessManager | None:
    """Return the process manager of a place, if processes need one to meet. Local."""
    if place.starter == "pmi":
        descriptor = environment.get("PMI_FD", "")
        if not descriptor.isdecimal():
            raise CommError(
                f"This process is one of {place.size} (PMI_SIZE), and has no connection to its "
                "process manager (PMI_FD), by which ranks find each other. Start the script with "
                "`mpirun` of MPICH, Intel MPI or Open MPI, with `srun`, or with `tarantella`."
            )
        return Pmi1(int(descriptor), settings.timeout_s)
    if place.starter == "open mpi" and not (place.is_on_one_host and place.job):
        return Pmix(environment, settings.timeout_s)
    return None


def rendezvous_plan_of(
    place: Place,
    manager: ProcessManager | None,
    settings: Settings,
    environment: Mapping[str, str],
) -> RendezvousPlan:
    """Return where and how the processes of a start meet. Collective where there is a manager."""
    if manager is not None:
        endpoint, trust = _by_manager(place, manager)
    elif place.is_on_one_host and place.job:
        endpoint, trust = local_endpoint(f"{place.starter} {place.job}"), SameUser()
    else:
        hosts = _hosts_of_first(place, environment)
        endpoint = NetworkEndpoint(hosts, candidate_ports(f"{place.starter} {place.job}"))
        trust = _trust(place, settings)
    return RendezvousPlan(place.rank, place.size, endpoint, trust)


@dataclass(frozen=True)
class _Opened:
    """Where rank 0 listens already, so that it could tell the others the port."""

    listener: socket.socket

    def listen(self) -> socket.socket:
        return self.listener

    def connections(self) -> list[socket.socket]:
        return []


def _by_manager(place: Place, manager: ProcessManager) -> tuple[Endpoint, Trust]:
    """Let rank 0 choose a name or a free port, and a secret."""
    is_root = place.rank == 0
    if place.is_on_one_host:
        name = manager.broadcast(secrets.token_hex(16), is_root)
        return local_endpoint(name), SameUser()
    if is_root:
        listener = listen_at(0)
        port, secret = listener.getsockname()[1], secrets.token_hex(16)
        manager.broadcast(json.dumps([own_addresses(), port, secret]), is_root)
        return _Opened(listener), SharedSecret(secret)
    hosts, port, secret = json.loads(manager.broadcast("", is_root))
    return NetworkEndpoint(tuple(hosts), (port,)), SharedSecret(secret)


def _hosts_of_first(place: Place, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return by which names rank 0 is reached, of a start that says where it is."""
    if place.starter == "torchrun":
        return (environment["MASTER_ADDR"].strip(),)
    return addresses_of_node(first_node(environment.get("SLURM_STEP_NODELIST", "")))


def _trust(place: Place, settings: Settings) -> Trust:
    """Return the private channel that all hosts have."""
    if place.starter == "slurm" and not settings.secret and munge.is_there():
        return munge.Munge(place.job)
    # Another job of this user may listen at a port that both try.
    secret = settings.secret or home_secret()
    return SharedSecret(derived(secret.encode(), f"{place.starter} {place.job}"))
