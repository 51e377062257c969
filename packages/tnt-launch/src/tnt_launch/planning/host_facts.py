"""What is known of a host before its ranks are planned, found out without TensorFlow."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tnt_launch.errors import LaunchError
from tnt_launch.planning.addresses import OwnAddress, address_on, own_addresses
from tnt_launch.planning.cpus import Cpu, num_usable_cores, usable_cpus
from tnt_launch.planning.gpu_drivers import Gpu
from tnt_launch.planning.settings import Settings
from tnt_launch.planning.spec import find_temporary_folder, working_folder
from tnt_launch.planning.variables import GPUS_PER_NODE
from tnt_launch.planning.visible_gpus import FoundGpus, find_gpus

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class HostFacts:
    """A host as its agent and the plan of a job see it; survives JSON as `HostFacts(**values)`."""

    host: str
    num_cores: int  # CPUs that this process may keep busy, at least 1
    gpus: tuple[Gpu, ...] = ()  # that a process started here would see
    cpus: tuple[Cpu, ...] = ()  # that this process may use; empty if nothing is known of them
    has_numactl: bool = False
    working_directory: str = "/"
    temporary_directory: str = "/tmp"
    interpreter: tuple[str, ...] | None = None  # of the script there, if not what the launcher uses
    addresses: tuple[OwnAddress, ...] = ()
    reached_at: str = ""  # the address at which the launcher has reached it
    reached_from: str = ""  # that from which the launcher has reached it
    address: str = LOOPBACK  # at which other hosts reach it, once it is chosen
    gpu_list: str = ""  # what has chosen the GPUs, as NAME=VALUE; empty if nothing has
    gpu_remark: str = ""  # what is wrong with that list; empty if nothing

    def __post_init__(self) -> None:
        # JSON knows lists only.
        interpreter = None if self.interpreter is None else tuple(self.interpreter)
        object.__setattr__(self, "gpus", tuple(Gpu(*gpu) for gpu in self.gpus))
        object.__setattr__(self, "cpus", tuple(Cpu(*cpu) for cpu in self.cpus))
        object.__setattr__(self, "interpreter", interpreter)
        object.__setattr__(self, "addresses", tuple(OwnAddress(*own) for own in self.addresses))


def inspect_host(settings: Settings, environment: Mapping[str, str], allow_gpus: bool) -> HostFacts:
    """Look at this host, GPUs only where allowed; may start `nvidia-smi`. Local."""
    stated = settings.get(GPUS_PER_NODE)
    seen = {**environment, **settings.exports}
    found = find_gpus(seen, stated) if allow_gpus else FoundGpus(())
    cpus = usable_cpus()
    return HostFacts(
        os.uname().nodename,
        num_usable_cores(len(cpus)),
        found.gpus,
        cpus,
        shutil.which("numactl") is not None,
        working_folder(),
        find_temporary_folder(),
        gpu_list=found.listed,
        gpu_remark=found.remark,
    )


def inspect_addresses(facts: HostFacts, environment: Mapping[str, str]) -> HostFacts:
    """Add the addresses of this host, and the ends of ssh's connection. Local."""
    # client address, client port, address of this host, port: as sshd tells.
    words = environment.get("SSH_CONNECTION", "").split()
    reached_from, reached_at = (words[0], words[2]) if len(words) == 4 else ("", "")
    return replace(
        facts, addresses=own_addresses(), reached_at=reached_at, reached_from=reached_from
    )


def choose_addresses(
    names: Sequence[str], hosts: Sequence[HostFacts], interface: str = ""
) -> list[str]:
    """Choose the address of every host at which the others reach it. Pure."""
    # On the interface that the user gives; else the address by which the launcher has reached the
    # host; the launcher's own host by what the others have seen of it; else the first that is not
    # loopback. Names of one host may have loopback if there is nothing else.
    are_one = all(set(host.addresses) == set(hosts[0].addresses) for host in hosts)
    if interface:
        return [
            address_on(name, host.addresses, interface, allows_loopback=are_one)
            for name, host in zip(names, hosts, strict=True)
        ]
    if are_one and all(own.is_loopback for own in hosts[0].addresses):
        return [LOOPBACK] * len(hosts)
    seen = [host.reached_from for host in hosts if host.reached_from]
    return [_reachable(name, host, seen) for name, host in zip(names, hosts, strict=True)]


def _reachable(name: str, host: HostFacts, seen: Sequence[str]) -> str:
    outside = [own.address for own in host.addresses if not own.is_loopback]
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


def own_version() -> str:
    """Return the version of tnt-launch, empty if it is not installed but only found."""
    from importlib import metadata

    try:
        return metadata.version("tnt-launch")
    except metadata.PackageNotFoundError:
        return ""


def version_difference(who: str, version: str, here: str) -> str:
    """Say that two hosts have different versions, nothing if they have the same."""
    own = own_version()
    if version == own:
        return ""
    return (
        f"{who} has tarantella {version or '(not installed)'}, {here} has "
        f"{own or '(not installed)'}. Install the same version on all hosts."
    )
