"""What an agent tells of its host before any rank is started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tnt_launch.planning.addresses import HostAddresses, OwnAddress
from tnt_launch.planning.hardware import Hardware, inspect_host
from tnt_launch.planning.settings import Settings
from tnt_launch.planning.temporary_folder import find_temporary_folder
from tnt_launch.planning.working_folder import working_folder


@dataclass(frozen=True)
class HostReport:
    """A host as its agent sees it."""

    hardware: Hardware
    addresses: HostAddresses
    working_directory: str
    temporary_directory: str
    interpreter: tuple[str, ...] | None = None  # of the script there, if the user has said it there

    def to_json(self) -> dict[str, Any]:
        """Return this as values that JSON knows."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> HostReport:
        """Return what `to_json` was called on."""
        addresses = values["addresses"]
        return cls(
            Hardware(**values["hardware"]),
            HostAddresses(
                tuple(OwnAddress(**own) for own in addresses["own"]),
                addresses["reached_at"],
                addresses["reached_from"],
            ),
            values["working_directory"],
            values["temporary_directory"],
            tuple(values["interpreter"]) if values["interpreter"] is not None else None,
        )


def inspect(settings: Settings, environment: Mapping[str, str], allow_gpus: bool) -> HostReport:
    """Look at the host of this process."""
    # client address, client port, address of this host, port: as sshd tells.
    words = environment.get("SSH_CONNECTION", "").split()
    reached_from, reached_at = (words[0], words[2]) if len(words) == 4 else ("", "")
    return HostReport(
        inspect_host(settings, environment, allow_gpus),
        HostAddresses(own_addresses(), reached_at, reached_from),
        working_folder(),
        find_temporary_folder(),
    )


def own_addresses() -> tuple[OwnAddress, ...]:
    """Return the IP addresses of this host, without those of one link only."""
    import ipaddress
    import socket

    import psutil

    found = []
    for interface, entries in psutil.net_if_addrs().items():
        for entry in entries:
            if entry.family in (socket.AF_INET, socket.AF_INET6):
                address = entry.address.partition("%")[0]
                if not ipaddress.ip_address(address).is_link_local:
                    found.append(OwnAddress(interface, address))
    return tuple(found)
