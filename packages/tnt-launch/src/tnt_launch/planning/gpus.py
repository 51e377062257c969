"""The GPUs of this host, found out without TensorFlow, and which of them a process would see."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tnt_launch.errors import LaunchError
from tnt_launch.planning.cpus import read_text

NVIDIA_PROC = Path("/proc/driver/nvidia/gpus")
NVIDIA_SMI_TIMEOUT_S = 10.0
KFD_NODES = Path("/sys/class/kfd/kfd/topology/nodes")
_LISTS = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


def find_gpus(environment: Mapping[str, str]) -> tuple[str, ...]:
    """List the GPUs that a process would see, by the names that CUDA or HIP uses. Local."""
    num_nvidia = installed_gpus()
    if num_nvidia > 0:
        return visible_gpus(num_nvidia, environment)
    return visible_amd_gpus(installed_amd_gpus(), environment)


def visible_gpus(num_installed: int, environment: Mapping[str, str]) -> tuple[str, ...]:
    """List the GPUs that CUDA would show: up to the first entry that names none. Pure."""
    return _shown(num_installed, environment.get("CUDA_VISIBLE_DEVICES"))


def visible_amd_gpus(num_installed: int, environment: Mapping[str, str]) -> tuple[str, ...]:
    """List the GPUs that HIP would show. Pure."""
    # The runtime below HIP keeps those of `ROCR_VISIBLE_DEVICES`. HIP numbers what is left anew.
    num_left = len(_shown(num_installed, environment.get("ROCR_VISIBLE_DEVICES")))
    listed = environment.get("HIP_VISIBLE_DEVICES", environment.get("CUDA_VISIBLE_DEVICES"))
    return _shown(num_left, listed)


def stated_gpus(count: int, environment: Mapping[str, str]) -> tuple[str, ...]:
    """List the `count` GPUs that the user states with `TNT_GPUS_PER_NODE`. Pure."""
    lists = {name: entries_of(environment[name]) for name in _LISTS if name in environment}
    for name, entries in lists.items():
        if len(entries) < count:
            raise LaunchError(
                f"TNT_GPUS_PER_NODE={count}, but {name}={environment[name]} lists only "
                f"{len(entries)}. Correct one of them."
            )
    lists.pop("ROCR_VISIBLE_DEVICES", None)  # what it shows is numbered anew
    for entries in lists.values():
        return entries[:count]
    return tuple(str(index) for index in range(count))


def entries_of(listed: str) -> tuple[str, ...]:
    """Return the entries of a list of visible devices. Pure."""
    return tuple(entry for entry in (word.strip() for word in listed.split(",")) if entry)


def _shown(num_installed: int, listed: str | None) -> tuple[str, ...]:
    if num_installed == 0:
        return ()
    if listed is None:
        return tuple(str(index) for index in range(num_installed))
    gpus = []
    for entry in entries_of(listed):
        is_index = entry.isdecimal() and int(entry) < num_installed
        if not (is_index or entry.startswith(("GPU-", "MIG-"))):
            break
        gpus.append(entry)
    return tuple(gpus)


def installed_gpus(proc: Path = NVIDIA_PROC) -> int:
    """Count the NVIDIA GPUs of this host as its driver tells; may start `nvidia-smi`. Local."""
    # In a container the folder of the driver shows all GPUs of the machine, nvidia-smi only those
    # that were given to the container; so the folder is the second choice.
    if shutil.which("nvidia-smi") is not None:
        try:
            listing = subprocess.run(
                ["nvidia-smi", "-L"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=NVIDIA_SMI_TIMEOUT_S,
                check=True,
            ).stdout
            return sum(line.startswith("GPU ") for line in listing.splitlines())
        except (OSError, subprocess.SubprocessError):
            pass
    return len(list(proc.iterdir())) if proc.is_dir() else 0


def installed_amd_gpus(nodes: Path = KFD_NODES) -> int:
    """Count the AMD GPUs of this host as its driver tells. Local."""
    # The driver describes CPUs, which have no such SIMD units, as well. A container cannot read
    # what describes a GPU that was not given to it.
    lines = (
        line.split()
        for folder in nodes.glob("[0-9]*")
        for line in read_text(folder / "properties").splitlines()
    )
    return sum(words[:1] == ["simd_count"] and words[1:] != ["0"] for words in lines)
