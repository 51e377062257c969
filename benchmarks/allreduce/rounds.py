"""In which order things are measured: all variants in turn, round after round.

The speed of a shared machine drifts within seconds. Variants are therefore compared within one
round, which takes a few seconds, and ratios are taken round by round.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.allreduce.process_set import ProcessSet
from benchmarks.allreduce.workload import Workload

BLOCK_S = 1e-3  # short runs are timed together, so that reading the clock costs nothing
MAX_BLOCKS = 1000


@dataclass
class Timing:
    """Times of one variant for one workload.

    Attributes:
        library: Name of the library.
        variant: Name of the variant.
        num_calls: Timed calls.
        rounds: Seconds of one call: for each round, the slowest rank's mean of each block.
    """

    library: str
    variant: str
    num_calls: int = 0
    rounds: list[list[float]] = field(default_factory=list)


@dataclass(frozen=True)
class Budget:
    """Limits of the measurement of one workload.

    Attributes:
        seconds: For all variants together.
        num_rounds: Wanted; fewer where the time does not suffice, but two at least.
    """

    seconds: float
    num_rounds: int


def measure_workload(
    variants: Sequence[tuple[ProcessSet, str]], workload: Workload, budget: Budget
) -> list[Timing]:
    """Measure all variants of all libraries for one workload.

    The first round finds out how long each takes and is not counted.

    Returns:
        One timing per variant, in the same order.
    """
    begin = time.monotonic()
    timings = [Timing(processes.spec.name, variant) for processes, variant in variants]
    estimates = [
        min(processes.measure(variant, workload.name, 1, 3)) for processes, variant in variants
    ]
    visit_s = budget.seconds / (budget.num_rounds * len(variants))
    order = list(range(len(variants)))
    round_s = 0.0
    for index in range(budget.num_rounds):
        round_begin = time.monotonic()
        if index >= 2 and round_begin + round_s > begin + budget.seconds:
            break
        for position in order:
            processes, variant = variants[position]
            block = math.ceil(BLOCK_S / estimates[position])
            num_blocks = int(visit_s / (2 * block * estimates[position]))
            num_blocks = min(max(num_blocks, 2), MAX_BLOCKS)
            times = processes.measure(variant, workload.name, block, num_blocks)
            timings[position].rounds.append(times)
            timings[position].num_calls += block * num_blocks
        order.reverse()  # nobody is always measured after the same neighbour
        round_s = time.monotonic() - round_begin
    return timings
