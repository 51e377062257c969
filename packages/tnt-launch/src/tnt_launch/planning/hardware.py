"""What this host has: CPUs and GPUs, found out without TensorFlow."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass

from tnt_launch.planning.cpus import Cpu, num_usable_cores, usable_cpus
from tnt_launch.planning.gpus import find_gpus, stated_gpus
from tnt_launch.planning.settings import Settings
from tnt_launch.planning.variables import GPUS_PER_NODE


@dataclass(frozen=True)
class Hardware:
    """What a plan needs to know about a host; survives JSON as `Hardware(**json.loads(text))`."""

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


def inspect_host(settings: Settings, environment: Mapping[str, str], allow_gpus: bool) -> Hardware:
    """Look at this host; may start `nvidia-smi`. Local."""
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
