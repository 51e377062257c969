"""What is known of a host before its ranks are planned, found out without TensorFlow."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tnt_launch.planning.addresses import LOOPBACK, HostAddresses, own_addresses
from tnt_launch.planning.cpus import Cpu, num_usable_cores, usable_cpus
from tnt_launch.planning.gpus import find_gpus, stated_gpus
from tnt_launch.planning.paths import find_temporary_folder, working_folder
from tnt_launch.planning.settings import Settings
from tnt_launch.planning.variables import GPUS_PER_NODE


@dataclass(frozen=True)
class Hardware:
    """What a host has; survives JSON as `Hardware(**json.loads(text))`."""

    host: str
    num_cores: int  # CPUs that this process may keep busy, at least 1
    # that a process started here would see, as CUDA_VISIBLE_DEVICES names them
    gpus: tuple[str, ...] = ()
    cpus: tuple[Cpu, ...] = ()  # that this process may use; empty if nothing is known of them
    has_numactl: bool = False

    def __post_init__(self) -> None:
        # JSON knows lists only.
        object.__setattr__(self, "gpus", tuple(self.gpus))
        object.__setattr__(self, "cpus", tuple(Cpu(*cpu) for cpu in self.cpus))


@dataclass(frozen=True)
class HostFacts:
    """A host as its agent and the plan of a job see it."""

    hardware: Hardware
    working_directory: str
    temporary_directory: str = "/tmp"
    address: str = LOOPBACK  # at which other hosts reach it, as chosen from `addresses`
    interpreter: tuple[str, ...] | None = None  # of the script there, if not what the launcher uses
    addresses: HostAddresses = field(default_factory=HostAddresses)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> HostFacts:
        """Return what `asdict` was called with."""
        words = values["interpreter"]
        parts = {
            "hardware": Hardware(**values["hardware"]),
            "addresses": HostAddresses(**values["addresses"]),
            "interpreter": None if words is None else tuple(words),
        }
        return cls(**{**values, **parts})


def inspect_host(settings: Settings, environment: Mapping[str, str], allow_gpus: bool) -> Hardware:
    """Look at what this host has, GPUs only where allowed; may start `nvidia-smi`. Local."""
    stated = settings.get(GPUS_PER_NODE)
    seen = {**environment, **settings.exports}
    gpus: tuple[str, ...] = ()
    if allow_gpus:
        gpus = find_gpus(seen) if stated is None else stated_gpus(stated, seen)
    cpus = usable_cpus()
    return Hardware(
        host=os.uname().nodename,
        num_cores=num_usable_cores(len(cpus)),
        gpus=gpus,
        cpus=cpus,
        has_numactl=shutil.which("numactl") is not None,
    )


def find_host_facts(
    settings: Settings, environment: Mapping[str, str], allow_gpus: bool
) -> HostFacts:
    """Look at this host, and at its addresses and the ends of ssh's connection. Local."""
    # client address, client port, address of this host, port: as sshd tells.
    words = environment.get("SSH_CONNECTION", "").split()
    reached_from, reached_at = (words[0], words[2]) if len(words) == 4 else ("", "")
    return HostFacts(
        inspect_host(settings, environment, allow_gpus),
        working_folder(),
        find_temporary_folder(),
        addresses=HostAddresses(own_addresses(), reached_at, reached_from),
    )


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
