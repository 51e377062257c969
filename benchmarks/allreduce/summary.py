"""From times to rows: medians, quartiles, bandwidths, ratios. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.allreduce.libraries import OURS
from benchmarks.allreduce.rounds import Timing
from benchmarks.allreduce.workload import Workload

MEMCPY = "limit: memcpy"
SHARED = "limit: shared"
Row = dict[str, Any]


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Lower quartile, median, upper quartile; for two values and more."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    lower, median, upper = statistics.quantiles(values, n=4, method="inclusive")
    return lower, median, upper


def median_of(timing: Timing) -> float:
    """Median over all blocks of all rounds, in seconds."""
    return statistics.median(time for times in timing.rounds for time in times)


def speedups(timing: Timing, other: Timing) -> list[float]:
    """How many times faster than the other, in each round."""
    return [
        statistics.median(theirs) / statistics.median(own)
        for own, theirs in zip(timing.rounds, other.rounds, strict=True)
    ]


def is_limit(timing: Timing) -> bool:
    """Whether it is no allreduce but what the memory allows."""
    return timing.variant in (MEMCPY, SHARED)


def best_peer(timings: Sequence[Timing]) -> Timing | None:
    """The fastest variant of all libraries but ours."""
    peers = [timing for timing in timings if timing.library != OURS]
    return min(peers, key=median_of, default=None)


def make_rows(timings: Sequence[Timing], workload: Workload, num_ranks: int) -> list[Row]:
    """One row per variant; bandwidths in GB/s, times in microseconds.

    `algbw` is the bytes of one rank's arrays / median; `busbw` is algbw * 2 (n - 1) / n, what each
    rank must send and receive at least. `vs_best_peer`, `vs_memcpy` and `vs_shared` are [lower
    quartile, median, upper quartile] over the rounds of (their time / this time).
    """
    references = {
        "vs_best_peer": best_peer(timings),
        "vs_memcpy": next((t for t in timings if t.variant == MEMCPY), None),
        "vs_shared": next((t for t in timings if t.variant == SHARED), None),
    }
    rows = []
    for timing in timings:
        times = [time for times in timing.rounds for time in times]
        lower, median, upper = quartiles(times)
        algbw = workload.num_bytes / median / 1e9
        row = {
            "ranks": num_ranks,
            "workload": workload.name,
            "bytes": workload.num_bytes,
            "library": timing.library,
            "variant": timing.variant,
            "median_us": round(median * 1e6, 2),
            "quartiles_us": [round(lower * 1e6, 2), round(upper * 1e6, 2)],
            "algbw_gbs": round(algbw, 3),
            "busbw_gbs": round(algbw * 2 * (num_ranks - 1) / num_ranks, 3),
            "rounds": len(timing.rounds),
            "calls": timing.num_calls,
        }
        for name, reference in references.items():
            if reference is not None and reference is not timing:
                row[name] = [round(x, 3) for x in quartiles(speedups(timing, reference))]
        rows.append(row)
    return rows
