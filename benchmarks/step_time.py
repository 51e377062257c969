"""The clocks of a training step."""

from __future__ import annotations

import resource
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple


class StepTime(NamedTuple):
    """Cost of one step on this rank, in seconds; or readings of both clocks."""

    wall_s: float
    cpu_s: float


def process_cpu_s() -> float:
    """User and system time of all threads of this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def now() -> StepTime:
    """Readings of both clocks."""
    return StepTime(time.perf_counter(), process_cpu_s())


def between(readings: Sequence[StepTime]) -> list[StepTime]:
    """What passed from each reading to the next. Pure."""
    return [StepTime(b.wall_s - a.wall_s, b.cpu_s - a.cpu_s) for a, b in pairwise(readings)]
