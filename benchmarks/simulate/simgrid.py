"""The same messages in SimGrid, a simulator that others have written and validated."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.simulate.layers import gradients_of
from benchmarks.simulate.library import built
from benchmarks.simulate.replay import Costs, Job, replay

HEADER = Path("/usr/include/simgrid/s4u.hpp")
NOT_INSTALLED = "SimGrid is not installed (Debian: apt install libsimgrid-dev)"
# Its own corrections of TCP are off: the replay has none either.
CONFIGURATION = (
    "--cfg=network/model:CM02",
    "--cfg=network/TCP-gamma:0",
    "--cfg=network/crosstraffic:0",
    "--cfg=contexts/stack-size:64",
    "--log=root.thres:critical",
)
LATENCY_S = 20e-6
BYTES_PER_S = 1.25e9
HOSTS = (2, 3, 4, 6, 8, 16)
STEPS = (("resnet50", 0.05), ("resnet50", 0.0), ("transformer_big", 0.0))
"""Models, and seconds of computation in which gradients become ready."""

SIMULATION_S = 300


@dataclass(frozen=True)
class Simulated:
    """When all hosts have all sums, in seconds."""

    model: str
    step_s: float
    hosts: int
    simgrid_s: float
    replayed_s: float

    @property
    def error(self) -> float:
        """Relative."""
        return self.replayed_s / self.simgrid_s - 1


def is_installed() -> bool:
    """Whether there is a SimGrid to compile with."""
    return HEADER.is_file()


def compare_with_simgrid() -> Iterator[Simulated]:
    """All steps on all numbers of hosts; SystemExit without SimGrid."""
    if not is_installed():
        sys.exit(NOT_INSTALLED)
    for model, step_s in STEPS:
        for hosts in HOSTS:
            yield simulate(model, step_s, hosts)


def simulate(model: str, step_s: float, hosts: int) -> Simulated:
    """One step in both: one rank on each host, 10 Gbit/s, 20 us, and nothing else that costs."""
    gradients = gradients_of(model)
    ready_s = [step_s * share for share in gradients.ready_share]
    job = Job(hosts, 1, gradients.num_elements, ready_s)
    head = f"{hosts} {BYTES_PER_S} {LATENCY_S} {job.threshold_bytes} {len(ready_s)}"
    lines = [f"{size} {s!r}" for size, s in zip(gradients.num_elements, ready_s, strict=True)]
    finished = subprocess.run(
        [built("simgrid.cpp", "-lsimgrid"), *CONFIGURATION],
        input="\n".join([head, *lines]),
        capture_output=True,
        text=True,
        timeout=SIMULATION_S,
        check=True,
    )
    replayed = replay(Costs(latency=LATENCY_S, gap=1 / BYTES_PER_S), job)
    return Simulated(model, step_s, hosts, float(finished.stdout), replayed.end_s)
