"""What this host has: cores and GPUs, found out without TensorFlow."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tnt_launch.errors import LaunchError
from tnt_launch.planning.settings import Settings
from tnt_launch.planning.variables import GPUS_PER_NODE

NVIDIA_PROC = Path("/proc/driver/nvidia/gpus")
NVIDIA_SMI_TIMEOUT_S = 10.0
CGROUP_ROOT = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Hardware:
    """What a plan needs to know about a host.

    Attributes:
        host: Name of the host.
        num_cores: Cores that this process may use, at least 1.
        gpus: GPUs that a process started here would see, as `CUDA_VISIBLE_DEVICES` names them.
    """

    host: str
    num_cores: int
    gpus: tuple[str, ...] = ()


def inspect_host(settings: Settings, environment: Mapping[str, str], allow_gpus: bool) -> Hardware:
    """Look at this host; may start `nvidia-smi`.

    Args:
        settings: A number of GPUs that the user states replaces the one found.
        environment: Where lists of visible devices are looked up; those of `-x` win.
        allow_gpus: Whether GPUs may be used; if not, none is looked for.

    Raises:
        LaunchError: If fewer GPUs are listed as visible than the user states.
    """
    stated = settings.get(GPUS_PER_NODE)
    seen = {**environment, **settings.exports}
    gpus: tuple[str, ...] = ()
    if allow_gpus and stated is None:
        gpus = visible_gpus(installed_gpus(), seen)
    elif allow_gpus and stated is not None:
        gpus = stated_gpus(stated, seen)
    return Hardware(os.uname().nodename, usable_cores(), gpus)


def visible_gpus(num_installed: int, environment: Mapping[str, str]) -> tuple[str, ...]:
    """List the GPUs that CUDA would show. Pure.

    CUDA reads `CUDA_VISIBLE_DEVICES` from the left and stops at the first entry that names no GPU.
    """
    if num_installed == 0:
        return ()
    listed = environment.get("CUDA_VISIBLE_DEVICES")
    if listed is None:
        return tuple(str(index) for index in range(num_installed))
    gpus = []
    for entry in _entries(listed):
        is_index = entry.isdecimal() and int(entry) < num_installed
        if not (is_index or entry.startswith(("GPU-", "MIG-"))):
            break
        gpus.append(entry)
    return tuple(gpus)


def stated_gpus(count: int, environment: Mapping[str, str]) -> tuple[str, ...]:
    """List the `count` GPUs that the user states with `TNT_GPUS_PER_NODE`. Pure.

    Raises:
        LaunchError: If the user's list of visible devices is shorter.
    """
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
        if name in environment:
            entries = tuple(_entries(environment[name]))
            if len(entries) < count:
                raise LaunchError(
                    f"TNT_GPUS_PER_NODE={count}, but {name}={environment[name]} lists only "
                    f"{len(entries)}. Correct one of them."
                )
            return entries[:count]
    return tuple(str(index) for index in range(count))


def _entries(listed: str) -> list[str]:
    return [entry for entry in (word.strip() for word in listed.split(",")) if entry]


def installed_gpus() -> int:
    """Count the NVIDIA GPUs of this host as its driver tells; may start `nvidia-smi`."""
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
    return len(list(NVIDIA_PROC.iterdir())) if NVIDIA_PROC.is_dir() else 0


def usable_cores() -> int:
    """Count the cores that this process may use: by affinity, or by quota if lower."""
    cores = len(os.sched_getaffinity(0))
    quota = _cgroup_quota()
    return cores if quota is None else max(1, min(cores, int(quota)))


def _cgroup_quota() -> float | None:
    """Return the lowest CPU quota, in cores, of the control groups around this process."""
    quotas = []
    for line in _read(Path("/proc/self/cgroup")).splitlines():
        hierarchy, controllers, path = line.split(":", 2)
        if hierarchy == "0":
            quotas += [parse_cpu_max(_read(f / "cpu.max")) for f in _ancestors(CGROUP_ROOT, path)]
        elif "cpu" in controllers.split(","):
            for folder in _ancestors(CGROUP_ROOT / "cpu", path):
                words = _read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")
                quotas.append(parse_cpu_max(" ".join(words)))
    return min((quota for quota in quotas if quota is not None), default=None)


def _ancestors(root: Path, path: str) -> list[Path]:
    # Inside a container the group's path may not exist below the root, but the root's files do.
    folder = root / path.strip("/")
    return [folder, *(parent for parent in folder.parents if parent.is_relative_to(root))]


def parse_cpu_max(text: str) -> float | None:
    """Read a quota as `"<microseconds or max> <period>"`; `None` if there is no limit. Pure."""
    words = text.split()
    if len(words) != 2 or not words[0].isdecimal() or not words[1].isdecimal():
        return None
    return int(words[0]) / int(words[1])


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
