"""In which order things are measured: all variants in turn, round after round."""

# The speed of a shared machine drifts within seconds. Variants are therefore compared within one
# round, which takes a few seconds, and ratios are taken round by round.

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.allreduce.libraries import OURS
from benchmarks.allreduce.library_ranks import LibraryRanks
from benchmarks.allreduce.workload import Workload

BLOCK_S = 1e-3  # short runs are timed together, so that reading the clock costs nothing
MIN_BLOCKS, MAX_BLOCKS = 2, 1000
HOPELESS = 1.5  # times slower than another variant of the library in the first round


@dataclass
class Timing:
    """Times of one variant for one workload."""

    library: str
    variant: str
    num_calls: int = 0
    # for each round, the slowest rank's mean seconds of a call, by block
    rounds: list[list[float]] = field(default_factory=list)


@dataclass(frozen=True)
class Budget:
    """Limits of the measurement of one workload."""

    seconds: float  # for all variants together
    num_rounds: int  # wanted; fewer where the time does not suffice, but two at least


@dataclass
class Candidate:
    """One variant of one library, and its times so far."""

    processes: LibraryRanks  # the ranks of the library
    timing: Timing
    first: list[float]  # seconds of single calls in the first round

    @property
    def estimate_s(self) -> float:
        """Of one call; the fastest, since the first round is the one with the page faults."""
        return min(self.first)

    def visit(self, workload: Workload, seconds: float) -> None:
        """Measure for about half of `seconds`; preparing and checking takes the rest."""
        block = math.ceil(BLOCK_S / self.estimate_s)
        num_blocks = int(seconds / (2 * block * self.estimate_s))
        num_blocks = min(max(num_blocks, MIN_BLOCKS), MAX_BLOCKS)
        times = self.processes.measure(self.timing.variant, workload.name, block, num_blocks)
        self.add(times, block)

    def add(self, times: list[float], block: int) -> None:
        """One more round."""
        self.timing.rounds.append(times)
        self.timing.num_calls += block * len(times)


def measure_workload(
    variants: Sequence[tuple[LibraryRanks, str]], workload: Workload, budget: Budget
) -> list[Timing]:
    """Measure all variants of all libraries for one workload."""
    # The first round finds out how long a call takes. It counts only where every call takes so long
    # that the clock does not matter. Variants that cannot be the best of their peer are left out
    # then.
    begin = time.monotonic()
    first = [
        Candidate(processes, Timing(processes.spec.name, variant),
                  processes.measure(variant, workload.name, 1, MIN_BLOCKS))
        for processes, variant in variants
    ]  # fmt: skip
    candidates = [candidate for candidate in first if is_promising(candidate, first)]
    if all(candidate.estimate_s > BLOCK_S for candidate in candidates):
        for candidate in candidates:
            candidate.add(candidate.first, block=1)
    order = list(candidates)
    round_s = time.monotonic() - begin
    while (num_done := len(candidates[0].timing.rounds)) < budget.num_rounds:
        round_begin = time.monotonic()
        if num_done >= 2 and round_begin + round_s > begin + budget.seconds:
            break
        for candidate in order:
            candidate.visit(workload, budget.seconds / (budget.num_rounds * len(order)))
        order.reverse()  # nobody is always measured after the same neighbour
        round_s = time.monotonic() - round_begin
    return [candidate.timing for candidate in candidates]


def is_promising(candidate: Candidate, everybody: Sequence[Candidate]) -> bool:
    """Whether it is ours, or may turn out to be the best variant of its peer. Pure."""
    library = candidate.timing.library
    fastest_s = min(other.estimate_s for other in everybody if other.timing.library == library)
    return library == OURS or candidate.estimate_s <= HOPELESS * fastest_s
