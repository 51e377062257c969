"""The CPUs of this host that the ranks may use, and how they lie."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

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
