"""Whether a workload fits into the memory of this host: better left out than killed half-way."""

from __future__ import annotations

from pathlib import Path

from benchmarks.allreduce.workload import Workload

# Inputs and results of one variant at a time, and what allocators keep of it: with all libraries on
# 2 ranks, 24 GB were just enough for Transformer big.
ARRAYS_PER_RANK = 1.75


def shortage_of(workload: Workload, num_ranks: int, num_libraries: int) -> str:
    """Why the workload does not fit, in a sentence; empty if it does."""
    needed = ARRAYS_PER_RANK * workload.num_bytes * num_ranks * num_libraries
    available = available_bytes()
    if needed <= available:
        return ""
    return (
        f"{workload.name} on {num_ranks} ranks is left out: {num_libraries} libraries need "
        f"{needed / 1e9:.0f} GB of memory, {available / 1e9:.0f} GB are available. Fewer --peers "
        "need less."
    )


def available_bytes() -> int:
    """Memory that can be allocated without swapping, as the kernel estimates it."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    sizes_kib = {name: int(rest.split()[0]) for name, rest in (line.split(":") for line in lines)}
    return 1024 * sizes_kib["MemAvailable"]
