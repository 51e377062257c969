"""Where rank 0 listens until all have met, and how others get there."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tnt_comm.errors import CommError

_CONNECT_S = 2.0
_FIRST_PORT, _LAST_PORT = 20000, 32768  # below those that the kernel gives to clients
_CANDIDATES = 8
_WAITING = 1024  # connections that nobody has accepted yet
_MOST_ADDRESSES = 4
_LOCAL_IPV4 = re.compile(r"\|-- (\S+)\s+/32 host LOCAL")


@dataclass(frozen=True)
class LocalEndpoint:
    """A name that all processes of this host can find; the kernel removes it with its owner."""

    name: str

    def listen(self) -> socket.socket:
        """Listen there."""
        listener = socket.socket(socket.AF_UNIX)
        try:
            listener.bind(self.name)
            listener.listen(_WAITING)
        except OSError as error:
            listener.close()
            raise CommError(
                f"rank 0 cannot listen for the other ranks of this host: {error.strerror}. Has "
                "another program of the same job also started ranks?"
            ) from error
        return listener

    def connections(self) -> list[socket.socket]:
        """Return what can be connected to now."""
        connection = socket.socket(socket.AF_UNIX)
        with contextlib.suppress(OSError):
            connection.connect(self.name)
            return [connection]
        connection.close()
        return []

    def __str__(self) -> str:
        return "rank 0 on this host"


@dataclass(frozen=True)
class NetworkEndpoint:
    """Addresses of the host of rank 0, any of which may do, and ports, one of which it has."""

    hosts: tuple[str, ...]
    ports: tuple[int, ...]
    connect_s: float = _CONNECT_S  # that a host may take to answer

    def listen(self) -> socket.socket:
        """Listen on all interfaces, at the first port that is free."""
        for port in self.ports:
            with contextlib.suppress(OSError):
                return listen_at(port)
        ports = ", ".join(map(str, self.ports))
        raise CommError(f"rank 0 cannot listen for the other ranks: none of ports {ports} is free")

    def connections(self) -> list[socket.socket]:
        """Return what can be connected to now."""
        found = []
        for host in self.hosts:
            for port in self.ports:
                with contextlib.suppress(OSError):
                    found.append(socket.create_connection((host, port), self.connect_s))
        return found

    def __str__(self) -> str:
        ports = ", ".join(map(str, self.ports))
        return f"rank 0 on {' or '.join(self.hosts)}, port {ports}"


def local_endpoint(job: str) -> LocalEndpoint:
    """Return the place of a job of this user on this host. Local."""
    digest = hashlib.sha256(f"{os.geteuid()} {job}".encode()).hexdigest()[:32]
    return LocalEndpoint(f"\0tarantella-{digest}")


def candidate_ports(job: str) -> tuple[int, ...]:
    """Return ports that the processes of a job try in turn, for lack of a channel. Pure."""
    digest = hashlib.sha256(job.encode()).digest()
    numbers = struct.unpack(f">{_CANDIDATES}I", digest[: 4 * _CANDIDATES])
    return tuple(_FIRST_PORT + number % (_LAST_PORT - _FIRST_PORT) for number in numbers)


def listen_at(port: int) -> socket.socket:
    """Listen on all interfaces, at a port or, for 0, at any that is free. Local."""
    if socket.has_dualstack_ipv6():
        family, is_dual = socket.AF_INET6, True
    else:
        family, is_dual = socket.AF_INET, False
    return socket.create_server(("", port), family=family, backlog=_WAITING, dualstack_ipv6=is_dual)


def reserve_port(address: str) -> tuple[socket.socket, int]:
    """Bind a free port of an address, at which a socket that may share it can listen. Local."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    reserved = socket.socket(family)
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind((address, 0))
    return reserved, reserved.getsockname()[1]


def own_addresses() -> tuple[str, ...]:
    """Return addresses of this host that others may reach, those of its name first. Local."""
    found: list[str] = []
    with contextlib.suppress(OSError):
        told = socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)
        found += [str(each[4][0]) for each in told]
    found += _addresses_of_interfaces()
    return tuple(filter(_is_reached_by_others, dict.fromkeys(found)))[:_MOST_ADDRESSES]


def _is_reached_by_others(address: str) -> bool:
    return not address.startswith(("127.", "::1", "fe80:", "169.254."))


def _addresses_of_interfaces() -> Iterator[str]:
    """Yield the addresses that the kernel takes for its own."""
    with contextlib.suppress(OSError):
        yield from _LOCAL_IPV4.findall(Path("/proc/net/fib_trie").read_text())
    with contextlib.suppress(OSError):
        for line in Path("/proc/net/if_inet6").read_text().splitlines():
            yield socket.inet_ntop(socket.AF_INET6, bytes.fromhex(line.split()[0]))
