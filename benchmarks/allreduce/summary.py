"""From times to rows: medians, quartiles, bandwidths, ratios. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from benchmarks.allreduce.libraries import LIMIT, OUR_OUT_OF_PLACE, OURS, OVER_GPI2
from benchmarks.allreduce.rounds import Timing
from benchmarks.allreduce.workload import Workload
from benchmarks.records import Row
from benchmarks.spread import quartiles, rounded


def median_of(timing: Timing) -> float:
    """Over all blocks of all rounds, in seconds."""
    return statistics.median(time for times in timing.rounds for time in times)


def speedups(timing: Timing, other: Timing) -> list[float]:
    """How many times faster than the other, in each round."""
    return [
        statistics.median(theirs) / statistics.median(own)
        for own, theirs in zip(timing.rounds, other.rounds, strict=True)
    ]


def references(timings: Sequence[Timing]) -> dict[str, Timing]:
    """What to compare with: the fastest variant of all peers, Horovod, own arrays, the limits."""
    found = {}
    peers = [timing for timing in timings if timing.library not in (OURS, OVER_GPI2)]
    if peers:
        found["vs_peer"] = min(peers, key=median_of)
    over_gpi2 = [timing for timing in timings if timing.library == OVER_GPI2]
    if over_gpi2:
        found["vs_gpi2"] = min(over_gpi2, key=median_of)
    for timing in timings:
        if timing.library == "Horovod":
            found["vs_horovod"] = timing
        elif timing.library == OURS and timing.variant == OUR_OUT_OF_PLACE:
            found["vs_out"] = timing
        elif timing.variant.startswith(LIMIT):
            found["vs_" + timing.variant.removeprefix(LIMIT)] = timing
    return found


def make_rows(timings: Sequence[Timing], workload: Workload, num_ranks: int) -> list[Row]:
    """One row per variant; times in microseconds, bandwidths in GB/s."""
    # `algbw` is the bytes of one rank's arrays / median; `busbw` is algbw * 2 (n - 1) / n, what
    # each rank has to send and receive at least. `vs_...` is lower quartile, median and upper
    # quartile of (time of the reference / own time), taken round by round.
    found = references(timings)
    rows = []
    for timing in timings:
        spread_s = quartiles([time for times in timing.rounds for time in times])
        algbw = workload.num_bytes / spread_s[1] / 1e9
        row: Row = {
            "ranks": num_ranks,
            "workload": workload.name,
            "bytes": workload.num_bytes,
            "library": timing.library,
            "variant": timing.variant,
            "call_us": rounded([1e6 * seconds for seconds in spread_s], 2),
            "algbw_gbs": round(algbw, 6),
            "busbw_gbs": round(algbw * 2 * (num_ranks - 1) / num_ranks, 6),
            "rounds": len(timing.rounds),
            "calls": timing.num_calls,
        }
        for name, reference in found.items():
            if reference is not timing:
                row[name] = rounded(quartiles(speedups(timing, reference)), 6)
        rows.append(row)
    return rows
