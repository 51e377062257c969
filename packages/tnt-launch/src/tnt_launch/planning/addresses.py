"""The IP addresses of a host."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Sequence
from typing import NamedTuple

from tnt_launch.errors import LaunchError


class OwnAddress(NamedTuple):
    """An IP address of a host."""

    interface: str
    address: str

    @property
    def is_loopback(self) -> bool:
        """Whether only the host itself reaches it."""
        return ipaddress.ip_address(self.address).is_loopback


def address_on(
    name: str, own: Sequence[OwnAddress], interface: str, *, allows_loopback: bool = True
) -> str:
    """Return the address that a host of a name has on an interface or network. Pure."""
    for one in own:
        if interface in (one.interface, one.address) or _is_in(one.address, interface):
            if one.is_loopback and not allows_loopback:
                raise LaunchError(
                    f"--interface {interface}: only the host itself reaches {one.address}. Name an "
                    f"interface, address or network by which other hosts reach {name}."
                )
            return one.address
    has = ", ".join(f"{one.interface} {one.address}" for one in own if not one.is_loopback)
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


def which_is_this_host(names: Sequence[str]) -> int | None:
    """Return which of the names means this host, `None` if none; may ask a name server."""
    here = [number for number, name in enumerate(names) if is_this_host(name)]
    if len(here) > 1:
        first, second = (names[number] for number in here[:2])
        raise LaunchError(
            f"{first!r} and {second!r} are both this host. Name it once, with all its ranks: "
            f"{first}:N."
        )
    return next(iter(here), None)


def own_address_towards(name: str) -> str:
    """Return the address from which this host reaches another one; empty if its name is unknown."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(name, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(address)  # asks the routing table, sends nothing
            return str(probe.getsockname()[0])
    except OSError:
        return ""
