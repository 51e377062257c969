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
from tnt_comm.start.rendezvous import Endpoint, RendezvousPlan, Wait
from tnt_comm.start.settings import Settings
from tnt_comm.start.slurm import addresses_of_node, first_node, known_addresses_of_node

_QUICK_S = 0.03  # for a name, or a port, where that may take long


class ProcessManager(Protocol):
    """What has started all processes, and carries a text of rank 0 to the others, privately."""

    def broadcast(self, text: str, is_root: bool) -> str:
        """Return the text of rank 0. Collective."""

    def close(self) -> None:
        """Say goodbye: that this process ends is no failure."""


def needs_manager(place: Place) -> bool:
    """Return whether the processes of a start need its process manager to meet. Pure."""
    return place.starter == "pmi" or (place.starter == "open mpi" and not _is_local(place))


def manager_of(place: Place, wait: Wait, environment: Mapping[str, str]) -> ProcessManager | None:
    """Return the process manager of a place, if processes need one to meet. Local."""
    if place.starter == "pmi":
        descriptor = environment.get("PMI_FD", "")
        if not descriptor.isdecimal():
            raise CommError(
                f"This process is one of {place.size} (PMI_SIZE), but has no connection to its "
                "process manager (PMI_FD), through which ranks find each other. Start the script "
                "with `mpirun` of MPICH, Intel MPI or Open MPI, with `srun`, or with "
                "`tarantella`."
            )
        return Pmi1(int(descriptor), place.rank, wait)
    return Pmix(environment, place.rank, wait) if needs_manager(place) else None


def rendezvous_plan_of(
    place: Place,
    manager: ProcessManager | None,
    settings: Settings,
    environment: Mapping[str, str],
) -> RendezvousPlan:
    """Return where and how the processes of a start meet. Collective where there is a manager."""
    if manager is not None:
        endpoint, trust = _by_manager(place, manager)
    else:
        endpoint, trust = _known_endpoint(place, environment), trust_of(place, settings)
    return RendezvousPlan(place.rank, place.size, endpoint, trust)


def quick_endpoint(place: Place, environment: Mapping[str, str]) -> Endpoint:
    """Return where rank 0 of a start without a manager may listen by now. Takes milliseconds."""
    return _known_endpoint(place, environment, _QUICK_S)


def _known_endpoint(
    place: Place, environment: Mapping[str, str], within_s: float | None = None
) -> Endpoint:
    """Return a place to meet that all know by themselves."""
    if _is_local(place):
        return local_endpoint(f"{place.starter} {place.job}")
    ports = candidate_ports(f"{place.starter} {place.job}")
    hosts = _hosts_of_first(place, environment, within_s)
    if within_s is None:
        return NetworkEndpoint(hosts, ports)
    return NetworkEndpoint(hosts, ports, within_s)


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


def _hosts_of_first(
    place: Place, environment: Mapping[str, str], within_s: float | None
) -> tuple[str, ...]:
    """Return by which names rank 0 is reached, of a start that says where it is."""
    is_of_slurm = place.starter == "slurm"
    if is_of_slurm:
        host = first_node(environment.get("SLURM_STEP_NODELIST", ""))
    else:
        host = environment["MASTER_ADDR"].strip()
    if within_s is not None:
        return known_addresses_of_node(host, within_s)
    return addresses_of_node(host) if is_of_slurm else (host,)


def _is_local(place: Place) -> bool:
    """Return whether the processes of a start meet by a name on their host, which all know."""
    return place.is_on_one_host and bool(place.job)


def trust_of(place: Place, settings: Settings) -> Trust:
    """Return the private channel that all hosts have, or what is enough on one."""
    if _is_local(place):
        return SameUser()
    if place.starter == "slurm" and not settings.secret and munge.is_there():
        return munge.Munge(place.job)
    # Another job of this user may listen at a port that both try.
    secret = settings.secret or home_secret()
    return SharedSecret(derived(secret.encode(), f"{place.starter} {place.job}"))
