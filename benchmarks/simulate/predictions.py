"""What is predicted for this tree, on the clusters and networks of `predictions.toml`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.simulate.machine import Machine, machine, software
from benchmarks.simulate.sourced import FOLDER, WrongInput, read_file, require_keys, sourced
from benchmarks.simulate.step import Layout, Step, predict

PREDICTIONS = FOLDER / "predictions.toml"
COMMON = ("title", "model", "step_s", "ranks_per_host")
CLUSTER = (*COMMON, "machine", "hosts", "steps_per_epoch", "is_host_first")
NETWORK = (*COMMON, "machines", "ranks")
# The edges of the band: factors on latencies and on rates of the network.
SLOW = {"latency": 2.0, "bandwidth": 0.75}
QUICK = {"latency": 0.5, "bandwidth": 1.0}


@dataclass(frozen=True)
class Prediction:
    """A step on one layout."""

    title: str
    machine: Machine
    model: str
    layout: Layout
    step: Step
    once_s: float  # what happens once an epoch, for each of its steps
    edges_s: tuple[float, float]  # of the step with a slow network, and with a quick one

    @property
    def heading(self) -> str:
        """The title, with the order of summation if it is not the default."""
        order = f", TNT_SUM_TREE={self.layout.ranks_per_host}xhosts"
        return self.title + (order if self.layout.is_host_first else "")

    @property
    def total_s(self) -> float:
        """Of the step, and its share of what happens once an epoch."""
        return self.step.total_s + self.once_s

    @property
    def speedup(self) -> float:
        """Samples per second, in those of one rank that communicates with nobody."""
        return self.layout.num_ranks * self.step.compute_s / self.total_s

    @property
    def band(self) -> tuple[float, float]:
        """Speed-ups with a slow and with a quick network."""
        # A quick one can be the slower by a trifle, as what is first in a queue depends on it.
        totals_s = sorted([self.total_s, *(each + self.once_s for each in self.edges_s)])
        work_s = self.layout.num_ranks * self.step.compute_s
        return work_s / totals_s[-1], work_s / totals_s[0]

    @property
    def losses_s(self) -> dict[str, float]:
        """Where the time of the step goes."""
        return {
            "compute": self.step.compute_s,
            "stragglers": self.step.stragglers_s,
            "host memory": self.step.host_s,
            "progress thread": self.step.thread_s,
            "network": self.step.network_s,
            "once per epoch": self.once_s,
        }


def predict_all(path: Path = PREDICTIONS) -> Iterator[list[Prediction]]:
    """For each title and machine of the file, the layouts in their order."""
    tables = read_file(path)
    require_keys(tables, path.name, (), ("cluster", "network"))
    for table in tables.get("cluster", ()):
        require_keys(table, table["title"], CLUSTER)
        layouts = [
            Layout(hosts, table["ranks_per_host"], table["is_host_first"])
            for hosts in table["hosts"]
        ]
        on = machine(table["machine"])
        yield [_predict(table, on, layout, table["steps_per_epoch"]) for layout in layouts]
    for table in tables.get("network", ()):
        require_keys(table, table["title"], NETWORK)
        for name in table["machines"]:
            layouts = [_spread(ranks, table["ranks_per_host"]) for ranks in table["ranks"]]
            yield [_predict(table, machine(name), layout, None) for layout in layouts]


def _spread(num_ranks: int, ranks_per_host: int) -> Layout:
    """On as few hosts as possible."""
    if num_ranks <= ranks_per_host:
        return Layout(1, num_ranks)
    return Layout(num_ranks // ranks_per_host, ranks_per_host)


def _predict(
    table: Mapping[str, Any], on: Machine, layout: Layout, steps_per_epoch: int | None
) -> Prediction:
    """`steps_per_epoch`: of one rank."""
    compute_s = sourced({"step_s": table["step_s"]}, table["title"], ["step_s"])["step_s"].value
    if not 0 < compute_s < math.inf:
        raise WrongInput(f"{table['title']}: `step_s` must be above 0. Received: {compute_s}.")
    once_s = on.epoch_s * layout.num_ranks / steps_per_epoch if steps_per_epoch else 0.0

    def step(variant: Machine, *, is_divided: bool = False) -> Step:
        model, ours = table["model"], software("tnt")
        return predict(model, compute_s, layout, variant, ours, is_divided=is_divided)

    expected = step(on, is_divided=True)
    edges_s = step(on.slower(**SLOW)).total_s, step(on.slower(**QUICK)).total_s
    return Prediction(table["title"], on, table["model"], layout, expected, once_s, edges_s)
