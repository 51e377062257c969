"""Sizes of gradients, and when they are ready, of a real step: from the trace of a training."""

from __future__ import annotations

import re
import statistics
from collections import defaultdict
from pathlib import Path

from benchmarks.simulate.layers import Gradients, gradients_of
from benchmarks.simulate.sourced import WrongInput
from tnt_comm.testing import Trace, read_trace

# Before it are compilation and what else a first step does.
FIRST_STEP = 2
BYTES_OF_AN_ELEMENT = 4
_BUCKET = re.compile(r"\d+ bucket (\d+) of 'gradients'")


def gradients_for(model: str) -> Gradients:
    """Those of a model that is known here, or of the trace of that path (with .json)."""
    if model.endswith(".json"):
        return gradients_in(read_trace(Path(model)), model)
    return gradients_of(model)


def gradients_in(trace: Trace, where: str) -> Gradients:
    """Gradients of the steps that `TNT_TIMELINE` has recorded on rank 0. Pure.

    With `--fusion-threshold 0` each gradient is a bucket. A gradient is ready at the median, over
    all steps but the first two, of

        (begin of its `ready` slice - begin of the step) / length of the step.

    WrongInput if the trace has fewer than three training steps, or no bucket.
    """
    shares, sizes = _shares_and_sizes(trace, where)
    # As variables are ordered: the last one is ready first.
    order = sorted(shares, key=lambda bucket: -statistics.median(shares[bucket]))
    return Gradients(
        tuple(sizes[bucket] for bucket in order),
        tuple(statistics.median(shares[bucket]) for bucket in order),
    )


def _shares_and_sizes(trace: Trace, where: str) -> tuple[dict[int, list[float]], dict[int, int]]:
    steps = trace.find("training step", rank=0)[FIRST_STEP:]
    if not steps:
        raise WrongInput(f"{where} must have {FIRST_STEP + 1} training steps or more of rank 0.")
    shares: dict[int, list[float]] = defaultdict(list)
    sizes: dict[int, int] = {}
    for event in trace.find("ready", category="bucket", rank=0):
        found = _BUCKET.match(event.row)
        for step in steps:
            if found and step.begin_us <= event.begin_us < step.end_us:
                bucket = int(found[1])
                length_us = step.end_us - step.begin_us
                shares[bucket].append((event.begin_us - step.begin_us) / length_us)
                sizes[bucket] = event.arguments["bytes"] // BYTES_OF_AN_ELEMENT
    if not shares:
        raise WrongInput(f"{where} has no buckets of gradients: record it on 2 ranks or more.")
    return shares, sizes
