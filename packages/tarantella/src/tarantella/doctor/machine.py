"""What a host has: cores, GPUs, shared memory, limits, networks."""

from __future__ import annotations

import os
import resource
import tempfile
from pathlib import Path

from tarantella.doctor.tell import tell
from tnt_launch.planning.addresses import own_addresses
from tnt_launch.planning.gpu_drivers import driver_version
from tnt_launch.planning.host_facts import inspect_host
from tnt_launch.planning.settings import Settings

SHARED_MEMORY = "/dev/shm"
_INFINIBAND = Path("/sys/class/infiniband")
_LIMITS = {
    "open_files": resource.RLIMIT_NOFILE,
    "processes": resource.RLIMIT_NPROC,
    "locked_memory": resource.RLIMIT_MEMLOCK,
}


def tell_hardware() -> None:
    """Tell about cores, NUMA nodes and GPUs as the launcher finds them; may ask `nvidia-smi`."""
    hardware = inspect_host(Settings({}, {}), os.environ, allow_gpus=True)
    tell(
        "cores",
        cpus=len(hardware.cpus),
        cores=len({cpu.core for cpu in hardware.cpus}),
        nodes=len({cpu.node for cpu in hardware.cpus}),
        usable=hardware.num_cores,
        has_numactl=hardware.has_numactl,
    )
    tell(
        "gpus",
        gpus=[gpu._asdict() for gpu in hardware.gpus],
        driver=driver_version(),
        remark=hardware.gpu_remark,
    )


def tell_shared_memory() -> None:
    """Tell how much shared memory there is, and whether it can be used. Local."""
    try:
        with tempfile.TemporaryFile(dir=SHARED_MEMORY) as file:
            file.write(bytes(1 << 16))
            file.flush()
        state = os.statvfs(SHARED_MEMORY)
    except OSError as error:
        tell("shared_memory", why=error.strerror or str(error))
    else:
        free, total = state.f_bavail * state.f_frsize, state.f_blocks * state.f_frsize
        tell("shared_memory", free=free, total=total)


def tell_limits() -> None:
    """Tell the limits of this process; `None` stands for none. Local."""
    soft = {name: resource.getrlimit(number)[0] for name, number in _LIMITS.items()}
    told = {
        name: None if limit == resource.RLIM_INFINITY else limit for name, limit in soft.items()
    }
    tell("limits", is_root=os.geteuid() == 0, **told)


def tell_networks() -> None:
    """Tell the addresses of this host, and its devices of InfiniBand. Local."""
    tell(
        "networks",
        addresses=[[own.interface, own.address] for own in own_addresses()],
        infiniband=sorted(path.name for path in _INFINIBAND.glob("*")),
    )
