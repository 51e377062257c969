"""Findings about cores, GPUs, shared memory, limits and networks of a host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tnt_launch.doctor.facts import Finding, Status
from tnt_launch.errors import LaunchError
from tnt_launch.numbers import bytes_text, counted
from tnt_launch.planning.addresses import HostAddresses, OwnAddress, choose_addresses

# Containers have 64 MiB unless they are given more.
_LITTLE_MEMORY, _FAIR_MEMORY = 64 << 20, 256 << 20

# What GPI-2 needs: some 40 and three for each rank of the job. Python and TensorFlow have theirs.
_FILES, _FILES_OF_A_RANK = 200, 3
_FAIR_FILES = 1024

# A rank with TensorFlow has some threads for each core, and some tens besides.
_THREADS, _THREADS_OF_A_CORE = 64, 4


def judge_cores(facts: Mapping[str, Any], num_ranks: int) -> Iterator[Finding]:
    """Say how many cores there are for the ranks, and how they lie. Pure."""
    usable = facts["usable"]
    cpus, cores = counted(facts["cpus"], "CPU"), counted(facts["cores"], "core")
    text = f"{cpus} on {cores}, {counted(facts['nodes'], 'NUMA node')}"
    if usable < facts["cpus"]:
        text += f", but the time of {counted(usable, 'CPU')} alone (quota of the container)"
    if min(usable, facts["cores"]) < num_ranks:
        few = f"{text}, for {counted(num_ranks, 'rank')}"
        yield Finding("note", "cores", few, "Ranks that share a core are slow: give a smaller -n.")
    else:
        yield Finding("ok", "cores", text)
    yield _judge_numactl(facts)


def _judge_numactl(facts: Mapping[str, Any]) -> Finding:
    if facts["has_numactl"]:
        return Finding("ok", "numactl", "found")
    if facts["nodes"] == 1:
        return Finding("ok", "numactl", "not found, not needed on one NUMA node")
    remedy = (
        "Only --pin-to-socket and --pin-memory-to-socket need it: install the package numactl, or "
        "give --bind-to numa."
    )
    return Finding("note", "numactl", "not found", remedy)


def judge_gpus(
    found: Mapping[str, Any], tensorflow: Mapping[str, Any] | None, num_ranks: int | None
) -> Finding:
    """Say which GPUs there are, and whether TensorFlow can use them. Pure."""
    gpus = len(found["gpus"])
    if gpus == 0:
        return Finding("ok", "GPUs", "none found: ranks run on CPUs")
    if tensorflow is not None and tensorflow["gpus"] < gpus:
        seen = f"{counted(gpus, 'GPU')} found, of which TensorFlow sees {tensorflow['gpus']}"
        if not tensorflow["is_built_for_gpus"]:
            text = f"{seen}: it was built for CPUs alone"
            remedy = (
                "Install the package tensorflow in the place of tensorflow-cpu, or give --no-gpu."
            )
            return Finding("problem", "GPUs", text, remedy)
        remedy = (
            'Install the libraries of its GPUs with `pip install "tensorflow[and-cuda]"`, check '
            "the driver with nvidia-smi, or give --no-gpu."
        )
        return Finding("problem", "GPUs", seen, remedy)
    if num_ranks is not None and gpus < num_ranks:
        text = f"{counted(gpus, 'GPU')} for {counted(num_ranks, 'rank')}: all ranks run on CPUs"
        remedy = f"Give -n {gpus} for a rank on each GPU."
        return Finding("note", "GPUs", text, remedy)
    return Finding("ok", "GPUs", f"{counted(gpus, 'GPU')}, each for a rank of its own")


def judge_shared_memory(facts: Mapping[str, Any]) -> Finding:
    """Say whether the ranks of a host can exchange data through its memory. Pure."""
    check = "shared memory"
    if "why" in facts:
        text = f"/dev/shm cannot be used: {facts['why']}"
        remedy = "Mount a tmpfs at /dev/shm that everybody may write to, and that is not full."
        return Finding("problem", check, text, remedy)
    free, total = facts["free"], facts["total"]
    text = f"{bytes_text(free)} of {bytes_text(total)} free in /dev/shm"
    if free >= _FAIR_MEMORY:
        return Finding("ok", check, text)
    status: Status = "problem" if free < _LITTLE_MEMORY else "note"
    remedy = (
        "Remove what is left there of jobs that have ended, or give more: `mount -o "
        "remount,size=2G /dev/shm`; a container `docker run --shm-size=2g`."
    )
    return Finding(status, check, text, remedy)


def judge_limits(
    facts: Mapping[str, Any], cores: int, num_ranks: int, size: int, has_infiniband: bool
) -> Finding:
    """Say whether a limit of the shell may be met. Pure."""
    files, processes = facts["open_files"], facts["processes"]
    memory = facts["locked_memory"]
    text = (
        f"open files {_limit(files)}, processes and threads {_limit(processes)}, locked memory "
        f"{'unlimited' if memory is None else bytes_text(memory)}"
    )
    least_files = _FILES + _FILES_OF_A_RANK * size
    if files is not None and files < least_files:
        return _raise_limit("problem", text, "n", max(_FAIR_FILES, least_files))
    # Nothing of it holds for root.
    threads = num_ranks * (_THREADS + _THREADS_OF_A_CORE * cores)
    if processes is not None and processes < threads and not facts["is_root"]:
        return _raise_limit("problem", text, "u", threads)
    if files is not None and files < _FAIR_FILES:
        return _raise_limit("note", text, "n", _FAIR_FILES)
    if memory is not None and has_infiniband:
        return _raise_limit("note", text, "l", "unlimited")
    return Finding("ok", "limits", text)


def _raise_limit(status: Status, text: str, letter: str, least: int | str) -> Finding:
    remedy = (
        f"Raise it with `ulimit -{letter} {least}`; the most that is allowed stands in "
        f"/etc/security/limits.conf."
    )
    return Finding(status, "limits", text, remedy)


def _limit(limit: int | None) -> str:
    return "unlimited" if limit is None else str(limit)


def judge_networks(facts: Mapping[str, Any], interface: str) -> Finding:
    """Say which networks a host has, and whether that of `--interface` is one. Pure."""
    own = tuple(OwnAddress(*words) for words in facts["addresses"])
    outside = [f"{one.interface} {one.address}" for one in own if not one.is_loopback]
    text = ", ".join([*outside, *(f"InfiniBand {name}" for name in facts["infiniband"])])
    try:
        choose_addresses([""], [HostAddresses(own)], interface)
    except LaunchError:
        text = f"{text or 'none'}; none of them is {interface}"
        remedy = "Name one of these interfaces or addresses, or a network of one, with --interface."
        return Finding("problem", "networks", text, remedy)
    return Finding("ok", "networks", text or "none besides this host")
