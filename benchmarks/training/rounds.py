"""In which order things are measured: all ways of a comparison in turn, round after round."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.jobs import threads_of_a_rank
from benchmarks.process_set import ProcessSet
from benchmarks.records import Row
from benchmarks.training.summary import average, make_rows
from benchmarks.training.ways import TNT, Comparison, Way

START_S = 900
REQUEST_S = 900
WITH_BATCH_NORM = ("resnet50",)


@dataclass(frozen=True)
class Workload:
    """What is trained."""

    model: str
    batch_size: int  # samples of each rank
    sizes: Sequence[int]  # those of `keras_models.Sizes`
    num_steps: int  # of each way in each round
    num_rounds: int


def ways_of(comparison: Comparison, model: str) -> list[Way]:
    """The ceiling first; without batch normalisation both of ours are the same. Pure."""
    ways = [comparison.ceiling, *comparison.ways]
    return [way for way in ways if way != TNT or model in WITH_BATCH_NORM]


@contextlib.contextmanager
def started(
    ways: Sequence[Way], size: int, workload: Workload, peers_folder: Path
) -> Iterator[dict[Way, ProcessSet]]:
    """Processes of all ways, warm."""
    words = [workload.model, *map(str, [workload.batch_size, *workload.sizes])]
    with contextlib.ExitStack() as stack:
        yield {
            way: stack.enter_context(
                ProcessSet(
                    way.name,
                    size,
                    partial(way.starts, size, peers_folder, words),
                    start_s=START_S,
                    request_s=REQUEST_S,
                    is_busy_when_idle=way.is_busy_when_idle,
                )
            )
            for way in ways
        }


def measure(comparison: Comparison, size: int, workload: Workload, peers_folder: Path) -> list[Row]:
    """Train in all ways of a comparison. Returns a row for each, the ceiling first."""
    ways = ways_of(comparison, workload.model)
    with started(ways, size, workload, peers_folder) as sets:
        rounds: dict[Way, list[Any]] = {way: [] for way in ways}
        order = list(ways)
        for _ in range(workload.num_rounds):
            for way in order:
                rounds[way].append(average(sets[way].ask({"num_steps": workload.num_steps})))
            order.reverse()  # nobody is always measured after the same neighbour
        hellos = [sets[way].hello[0] for way in ways]
    common: Row = {
        "model": workload.model,
        "processes": size,
        "threads": threads_of_a_rank(size),
        "batch_size": workload.batch_size,
        "steps": workload.num_steps,
        "rounds": workload.num_rounds,
    }
    rows = make_rows(comparison, rounds, common)
    facts = ("parameters", "versions")
    return [
        {**row, **{name: hello[name] for name in facts}}
        for row, hello in zip(rows, hellos, strict=True)
    ]
