"""CPUs of this host that a job may keep busy, as the launcher counts them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

_CONTROL_GROUPS = Path("/sys/fs/cgroup")
_OWN_GROUPS = Path("/proc/self/cgroup")


def cores_of_process(groups: Path = _CONTROL_GROUPS, own: Path = _OWN_GROUPS) -> int:
    """Return how many CPUs this process may keep busy: those it is kept on, or fewer. Local."""
    return _within_quota(len(os.sched_getaffinity(0)), groups, own)


def cores_of_job(
    environment: Mapping[str, str], groups: Path = _CONTROL_GROUPS, own: Path = _OWN_GROUPS
) -> int:
    """Return how many CPUs all ranks of this host may keep busy, whatever this one has. Local."""
    # SLURM says what the job has here, others do not.
    of_job = environment.get("SLURM_CPUS_ON_NODE", "")
    of_host = int(of_job) if of_job.isdecimal() else os.cpu_count() or 1
    return _within_quota(of_host, groups, own)


def _within_quota(count: int, groups: Path, own: Path) -> int:
    return max(1, min([count, *map(int, _quotas(groups, own))]))


def _quotas(groups: Path, own: Path) -> Iterator[float]:
    """Yield the CPU quotas, in cores, of the control groups around this process."""
    for line in _text(own).splitlines():
        hierarchy, controllers, path = line.split(":", 2)
        if hierarchy == "0":
            root, names = groups, ["cpu.max"]
        elif "cpu" in controllers.split(","):
            root, names = groups / "cpu", ["cpu.cfs_quota_us", "cpu.cfs_period_us"]
        else:
            continue
        folder = root / path.strip("/")
        # In a container the path may not exist below the root, whose own files do.
        for each in (folder, *(one for one in folder.parents if one.is_relative_to(root))):
            words = " ".join(_text(each / name) for name in names).split()
            if len(words) == 2 and all(word.isdecimal() for word in words):
                yield int(words[0]) / int(words[1])


def _text(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text()
    return ""
