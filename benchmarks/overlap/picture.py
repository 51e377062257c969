"""Draw one training step of a trace: what rank 0 computes, and which buckets are under way.

TNT_TIMELINE=trace.json python -m benchmarks.overlap --fusion 32 --transports ucx
python -m benchmarks.overlap.picture trace.json docs/images/overlap_of_buckets.svg
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.pictures import BLUE, GREEN, GREY, ORANGE, SETTINGS, TEXT, pyplot, save
from tnt_comm.testing import Trace, TraceEvent, read_trace

WAY = "started"  # from when a bucket is given away until its sum is there
GRADIENTS = " of 'gradients'"


@dataclass(frozen=True)
class DrawnStep:
    """Times in milliseconds from the begin of the step."""

    forward_end: float
    backward_end: float
    sums_end: float
    end: float
    buckets: Sequence[tuple[float, float, int]]  # begin, end, bytes; in the order of their begins


def step_in(trace: Trace) -> DrawnStep:
    """The step of rank 0 whose length is the median; ValueError if there is none. Pure."""
    steps = [step for step in map(_drawn, _steps_of(trace)) if step is not None]
    if not steps:
        raise ValueError("The trace has no training step of rank 0 with buckets of gradients.")
    return sorted(steps, key=lambda step: step.end)[len(steps) // 2]


def _steps_of(trace: Trace) -> list[tuple[TraceEvent, list[TraceEvent], list[TraceEvent]]]:
    """Each step with its backpropagation and its buckets."""
    passes = trace.find("backpropagation", rank=0)
    sums = [each for each in trace.find(WAY, rank=0) if GRADIENTS in each.row]

    def inside(step: TraceEvent, events: Sequence[TraceEvent]) -> list[TraceEvent]:
        return [each for each in events if step.begin_us <= each.begin_us < step.end_us]

    steps = trace.find("training step", rank=0)
    return [(step, inside(step, passes), inside(step, sums)) for step in steps]


def _drawn(found: tuple[TraceEvent, list[TraceEvent], list[TraceEvent]]) -> DrawnStep | None:
    step, passes, sums = found
    if not passes or not sums:
        return None

    def ms(time_us: float) -> float:
        return (time_us - step.begin_us) / 1e3

    sums = sorted(sums, key=lambda each: each.begin_us)
    buckets = [(ms(each.begin_us), ms(each.end_us), each.arguments["bytes"]) for each in sums]
    return DrawnStep(
        ms(passes[0].begin_us),
        ms(passes[0].end_us),
        max(end for _, end, _ in buckets),
        ms(step.end_us),
        buckets,
    )


def size_text(num_bytes: int) -> str:
    """Two digits in a unit that suits. Pure."""
    return f"{num_bytes / 1e6:.2g} MB" if num_bytes >= 1e6 else f"{num_bytes / 1e3:.2g} kB"


def draw(step: DrawnStep, path: Path) -> None:
    """Write the picture as SVG."""
    import matplotlib

    with matplotlib.rc_context(SETTINGS):
        plots = pyplot()
        height = 1.3 + 0.22 * len(step.buckets)
        figure, axis = plots.subplots(figsize=(7.2, height), layout="constrained")
        parts = [
            (0.0, step.forward_end, GREY, "forward pass"),
            (step.forward_end, step.backward_end, BLUE, "backpropagation"),
            (step.backward_end, step.sums_end, ORANGE, "waiting for sums"),
            (step.sums_end, step.end, GREEN, "update"),
        ]
        for begin, end, color, name in parts:
            axis.barh(0, max(0.0, end - begin), left=begin, color=color, label=name, height=0.8)
        for row, (begin, end, num_bytes) in enumerate(step.buckets, start=1):
            axis.barh(row, end - begin, left=begin, color=BLUE, alpha=0.35, height=0.7)
            axis.text(end, row, f" {size_text(num_bytes)}", va="center", fontsize=7)
        axis.axvline(step.backward_end, color=TEXT, linewidth=0.8, linestyle=":")
        axis.set_yticks([0, len(step.buckets) / 2 + 0.5], ["computation", "sums of\nbuckets"])
        axis.invert_yaxis()
        axis.set(xlabel="milliseconds of the step", xlim=(0, 1.1 * step.end))
        figure.legend(loc="outside upper center", ncols=4, fontsize=8)
        save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overlap.picture")
    parser.add_argument("trace", type=Path, help="what TNT_TIMELINE has left")
    parser.add_argument("picture", type=Path, help="SVG to write; needs matplotlib")
    arguments = parser.parse_args()
    try:
        draw(step_in(read_trace(arguments.trace)), arguments.picture)
    except ValueError as error:
        sys.exit(f"{arguments.trace}: {error}")


if __name__ == "__main__":
    main()
