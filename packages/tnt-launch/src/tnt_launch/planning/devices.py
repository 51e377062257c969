"""The CPUs of this host that the ranks may use, how they lie, and its GPUs, without TensorFlow."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from tnt_launch.errors import LaunchError

CGROUP_ROOT = Path("/sys/fs/cgroup")
DEVICES = Path("/sys/devices/system")


class Cpu(NamedTuple):
    """A CPU, as Linux numbers it; a core has several if it runs several threads."""

    number: int
    core: int  # the lowest number of its CPUs, which stands for the core
    package: int  # number of the chip, which sits in a socket
    node: int  # number of the NUMA node


def usable_cpus(root: Path = DEVICES) -> tuple[Cpu, ...]:
    """List the CPUs that this process may use, ascending by number. Local."""
    # That is its affinity, from which the kernel takes what the control group does not allow.
    return describe_cpus(os.sched_getaffinity(0), root)


def describe_cpus(numbers: Collection[int], root: Path) -> tuple[Cpu, ...]:
    """Say of each CPU where it lies, ascending by number; see `usable_cpus`. Local."""
    # What the kernel does not say, as in some containers, is taken as one node and one package,
    # with a core for each CPU.
    node_of = {
        cpu: int(folder.name.removeprefix("node"))
        for folder in (root / "node").glob("node[0-9]*")
        for cpu in parse_cpu_list(read_text(folder / "cpulist"))
    }
    cpus = []
    for number in sorted(numbers):
        topology = root / "cpu" / f"cpu{number}" / "topology"
        siblings = parse_cpu_list(read_text(topology / "thread_siblings_list"))
        package = read_text(topology / "physical_package_id").strip()
        cpus.append(
            Cpu(
                number,
                min(siblings, default=number),
                int(package) if package.isdecimal() else 0,
                node_of.get(number, 0),
            )
        )
    return tuple(cpus)


def num_usable_cores(num_cpus: int) -> int:
    """Count the CPUs that this process may keep busy: `num_cpus`, or its quota if lower. Local."""
    quota = _cgroup_quota()
    return num_cpus if quota is None else max(1, min(num_cpus, int(quota)))


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """Read numbers as the kernel lists them, `0-3,8`; nothing if it is not such a list. Pure."""
    numbers: list[int] = []
    for part in text.strip().split(","):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or not (last.isdecimal() if dash else True):
            return ()
        numbers += range(int(first), int(last if dash else first) + 1)
    return tuple(numbers)


def _cgroup_quota() -> float | None:
    """Return the lowest CPU quota, in cores, of the control groups around this process."""
    quotas = []
    for line in read_text(Path("/proc/self/cgroup")).splitlines():
        hierarchy, controllers, path = line.split(":", 2)
        if hierarchy == "0":
            folders = _ancestors(CGROUP_ROOT, path)
            quotas += [parse_cpu_max(read_text(folder / "cpu.max")) for folder in folders]
        elif "cpu" in controllers.split(","):
            for folder in _ancestors(CGROUP_ROOT / "cpu", path):
                names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
                quotas.append(parse_cpu_max(" ".join(read_text(folder / name) for name in names)))
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


def read_text(path: Path) -> str:
    """Return the content of a file of the kernel, nothing if it cannot be read. Local."""
    try:
        return path.read_text()
    except OSError:
        return ""


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
