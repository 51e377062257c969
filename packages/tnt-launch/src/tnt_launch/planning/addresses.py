"""At which IP address the other hosts of a job reach a host."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tnt_launch.errors import LaunchError

LOOPBACK = "127.0.0.1"


class OwnAddress(NamedTuple):
    """An IP address of a host."""

    interface: str
    address: str

    @property
    def is_loopback(self) -> bool:
        """Whether only the host itself reaches it."""
        return ipaddress.ip_address(self.address).is_loopback


@dataclass(frozen=True)
class HostAddresses:
    """What is known of the addresses of a host."""

    own: tuple[OwnAddress, ...] = ()
    reached_at: str = ""  # that at which the launcher has reached it
    reached_from: str = ""  # that from which the launcher has reached it

    def __post_init__(self) -> None:
        # JSON knows lists only.
        object.__setattr__(self, "own", tuple(OwnAddress(*own) for own in self.own))


def choose_addresses(
    names: Sequence[str], hosts: Sequence[HostAddresses], interface: str = ""
) -> list[str]:
    """Choose the address of every host at which the others reach it. Pure."""
    # On the interface that the user gives; else the address by which the launcher has reached the
    # host; the launcher's own host by what the others have seen of it; else the first that is not
    # loopback. Names of one host may have loopback if there is nothing else.
    are_one = all(set(host.own) == set(hosts[0].own) for host in hosts)
    if interface:
        return [
            _on_interface(name, host, interface, are_one)
            for name, host in zip(names, hosts, strict=True)
        ]
    if are_one and all(own.is_loopback for own in hosts[0].own):
        return [LOOPBACK] * len(hosts)
    seen = [host.reached_from for host in hosts if host.reached_from]
    return [_reachable(name, host, seen) for name, host in zip(names, hosts, strict=True)]


def _reachable(name: str, host: HostAddresses, seen: Sequence[str]) -> str:
    outside = [own.address for own in host.own if not own.is_loopback]
    if host.reached_at in outside:
        return host.reached_at
    for address in seen if not host.reached_at else ():
        if address in outside:
            return address
    if not outside:
        raise LaunchError(
            f"host {name} has no address at which other hosts could reach it. Check its network, "
            f"or name an interface with --interface."
        )
    return outside[0]


def _on_interface(name: str, host: HostAddresses, interface: str, are_one: bool) -> str:
    for own in host.own:
        if interface in (own.interface, own.address) or _is_in(own.address, interface):
            if own.is_loopback and not are_one:
                raise LaunchError(
                    f"--interface {interface}: only the host itself reaches {own.address}. Name an "
                    f"interface, address or network by which host {name} is reached from others."
                )
            return own.address
    has = ", ".join(f"{own.interface} {own.address}" for own in host.own if not own.is_loopback)
    raise LaunchError(
        f"--interface {interface}: host {name} has no such network interface, address or network. "
        f"It has: {has or 'none'}."
    )


def _is_in(address: str, network: str) -> bool:
    try:
        return ipaddress.ip_address(address) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


def own_addresses() -> tuple[OwnAddress, ...]:
    """Return the IP addresses of this host, without those of one link only."""
    import psutil

    found = []
    for interface, entries in psutil.net_if_addrs().items():
        for entry in entries:
            if entry.family in (socket.AF_INET, socket.AF_INET6):
                address = entry.address.partition("%")[0]
                if not ipaddress.ip_address(address).is_link_local:
                    found.append(OwnAddress(interface, address))
    return tuple(found)


def is_this_host(name: str) -> bool:
    """Return whether a name means this host, so that no ssh is needed; may ask a name server."""
    # A name with a user, and one that only ssh knows, do not.
    own_name = os.uname().nodename.lower()
    if name.lower() in ("localhost", own_name, own_name.partition(".")[0]):
        return True
    if "@" in name:
        return False
    try:
        found = socket.getaddrinfo(name.strip("[]"), None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    own = {entry.address for entry in own_addresses()}
    return bool(found) and all(str(entry[4][0]).partition("%")[0] in own for entry in found)
