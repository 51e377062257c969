"""The time of a training step, and where it goes."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchmarks.simulate.layers import UPDATE_SHARE, Gradients
from benchmarks.simulate.machine import Machine, Software, costs_of
from benchmarks.simulate.replay import Costs, Job, Outcome, replay
from benchmarks.simulate.sourced import WrongInput
from benchmarks.simulate.timeline import gradients_for


@dataclass(frozen=True)
class Layout:
    """Where the ranks are."""

    hosts: int
    ranks_per_host: int
    is_host_first: bool = False  # TNT_SUM_TREE begins with the ranks of each host

    def __post_init__(self) -> None:
        if min(self.hosts, self.ranks_per_host) < 1:
            raise WrongInput(f"Hosts and ranks must be 1 or more. Received: {self}.")

    @property
    def num_ranks(self) -> int:
        """All together."""
        return self.hosts * self.ranks_per_host

    def __str__(self) -> str:
        return f"{self.hosts}x{self.ranks_per_host}"


@dataclass(frozen=True)
class Step:
    """Parts of a step, in seconds; they add up to all of it.

    What is exposed is divided among causes by taking them away one after the other: `host_s` is
    what the step is shorter by if copies cost nothing and the memory of the host is without limits,
    `thread_s` what it is shorter by if the progress thread takes no time either, `network_s` the
    rest.
    """

    compute_s: float
    stragglers_s: float
    host_s: float
    thread_s: float
    network_s: float
    outcome: Outcome | None  # None of a rank alone

    @property
    def total_s(self) -> float:
        """The whole step."""
        return self.compute_s + self.stragglers_s + self.exposed_s

    @property
    def exposed_s(self) -> float:
        """What communication adds."""
        return self.host_s + self.thread_s + self.network_s


def predict(
    model: str,
    compute_s: float,
    layout: Layout,
    machine: Machine,
    software: Software,
    *,
    is_divided: bool = True,
) -> Step:
    """A step that takes one rank `compute_s` if it communicates with nobody. Pure.

    Without `is_divided`, all that is exposed counts as the network's, in a third of the time.
    """
    stragglers_s = compute_s * machine.jitter * expected_maximum(layout.num_ranks)
    if layout.num_ranks == 1:
        return Step(compute_s, 0, 0, 0, 0, None)
    gradients = gradients_for(model)
    slowest_s = compute_s + stragglers_s
    job = make_job(gradients, slowest_s, layout, software)
    computed_s = (1 - UPDATE_SHARE) * slowest_s
    costs = costs_of(machine, software)
    outcome = replay(costs, job)
    exposed = [max(0.0, outcome.end_s - computed_s)]
    if is_divided:
        cheaper = [without_host(costs), without_thread(without_host(costs))]
        exposed += [max(0.0, replay(each, job).end_s - computed_s) for each in cheaper]
    else:
        exposed *= 3
    return Step(
        compute_s,
        stragglers_s,
        host_s=exposed[0] - exposed[1],
        thread_s=exposed[1] - exposed[2],
        network_s=exposed[2],
        outcome=outcome,
    )


def without_host(costs: Costs) -> Costs:
    """Copies cost nothing, and the memory of a host has no limits. Pure."""
    return replace(costs, memory_gap=0, pack_gap=0, up_gap=0, down_gap=0)


def without_thread(costs: Costs) -> Costs:
    """The progress thread takes no time. Pure."""
    return replace(costs, send=0, receive=0, message_gap=0, combine_gap=0, write_gap=0)


def make_job(gradients: Gradients, step_s: float, layout: Layout, software: Software) -> Job:
    """What the software does with the gradients of a step. Pure."""
    sizes = list(gradients.num_elements)
    ready_s = [share * step_s for share in gradients.ready_share]
    threshold = software.fusion_threshold_bytes
    if software.order == "forward":  # a FusionPlan begins with the last of its list
        sizes.reverse()
        ready_s.reverse()
    if software.cycle_s > 0:
        sizes, ready_s = fused_by_cycle(sizes, ready_s, software)
        threshold = 0
    return Job(
        layout.num_ranks,
        layout.ranks_per_host,
        sizes,
        ready_s,
        threshold,
        software.algorithm,
        is_serial=software.is_serial,
        is_card_loopback=software.loopback == "card",
        is_lent=software.is_lent,
        is_host_first=layout.is_host_first,
    )


def fused_by_cycle(
    sizes: Sequence[int], ready_s: Sequence[float], software: Software
) -> tuple[list[int], list[float]]:
    """What has become ready in a cycle is summed together, up to the threshold. Pure.

    Returns one entry for each sum, in the order of variables, so the first one is the last.
    """
    sums: list[tuple[int, int]] = []  # elements, and in which cycle
    for size, ready in sorted(zip(sizes, ready_s, strict=True), key=lambda each: each[1]):
        cycle = math.ceil(ready / software.cycle_s)
        fits = bool(sums) and 4 * (sums[-1][0] + size) <= software.fusion_threshold_bytes
        if fits and sums[-1][1] == cycle:
            sums[-1] = (sums[-1][0] + size, cycle)
        else:
            sums.append((size, cycle))
    sums.reverse()
    started_s = [cycle * software.cycle_s + software.negotiation_s for _, cycle in sums]
    return [size for size, _ in sums], started_s


@functools.cache
def expected_maximum(count: int) -> float:
    """Mean of the largest of `count` draws of a normal distribution of deviation 1. Pure."""
    # The integral of x d(F(x)^n), by parts: of 1 - F^n above 0, less F^n below.
    width, limit = 1e-3, 9.0
    total = 0.0
    for k in range(round(limit / width)):
        x = (k + 0.5) * width
        above = 0.5 * math.erfc(x / math.sqrt(2))
        total += 1 - (1 - above) ** count - above**count
    return total * width
