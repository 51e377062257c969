"""Published results of others, and what the model says about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.simulate.machine import Machine, Software, machine, software
from benchmarks.simulate.sourced import FOLDER, WrongInput, read, require_keys
from benchmarks.simulate.step import Layout, Step, predict

KEYS = (
    "title", "source", "machine", "software", "model", "samples_per_rank", "baseline", "points",
    "left_out",
)  # fmt: skip
PLACE = ("hosts", "ranks_per_host")
MEASURES = ("minutes", "efficiency", "samples_per_s")  # a point has one of them
GOAL = 0.1


@dataclass(frozen=True)
class Point:
    """A published number: minutes of an epoch, efficiency, or samples per second of one rank."""

    layout: Layout
    measure: str
    value: float


@dataclass(frozen=True)
class Series:
    """Published points of one model on one machine, and the point that they are compared with."""

    title: str
    machine: Machine
    software: Software
    model: str
    samples_per_rank: int
    samples_per_epoch: int
    baseline: Point
    points: Sequence[Point]
    left_out: Sequence[str]
    causes: Mapping[str, str]  # of errors, by layout; written after they were seen

    def steps_per_epoch(self, layout: Layout) -> float:
        """With the same number of samples on each rank, whatever their number."""
        return self.samples_per_epoch / (self.samples_per_rank * layout.num_ranks)


@dataclass(frozen=True)
class Comparison:
    """A published point beside what the model says."""

    series: Series
    point: Point
    step: Step
    published_s: float  # of a step, with its share of what happens once an epoch
    predicted_s: float

    @property
    def error(self) -> float:
        """Relative; negative if the model is too fast."""
        return self.predicted_s / self.published_s - 1


def names_of_series() -> list[str]:
    """All that are in the folder."""
    return sorted(path.stem for path in (FOLDER / "published").glob("*.toml"))


def series(name: str) -> Series:
    """The series of `published/NAME.toml`."""
    table = read("published", name)
    require_keys(table, name, KEYS, optional=("samples_per_epoch", "causes"))
    return Series(
        title=table["title"],
        machine=machine(table["machine"]),
        software=software(table["software"]),
        model=table["model"],
        samples_per_rank=table["samples_per_rank"],
        samples_per_epoch=table.get("samples_per_epoch", 0),
        baseline=_point(table["baseline"], f"{name}.baseline"),
        points=[_point(each, f"{name}.points") for each in table["points"]],
        left_out=table["left_out"],
        causes=table.get("causes", {}),
    )


def _point(table: dict[str, Any], where: str) -> Point:
    require_keys(table, where, PLACE, optional=MEASURES)
    measures = [key for key in table if key not in PLACE]
    if len(measures) != 1:
        raise WrongInput(f"{where} must have one of {', '.join(MEASURES)}. Received: {table}.")
    return Point(Layout(table["hosts"], table["ranks_per_host"]), measures[0], table[measures[0]])


def compute_of_baseline(series: Series) -> float:
    """Seconds that a step takes one rank that communicates with nobody.

    If the baseline has several ranks, the model's losses on it are taken off.
    """
    point = series.baseline
    if point.measure == "samples_per_s":
        return series.samples_per_rank / point.value
    steps = series.steps_per_epoch(point.layout)
    measured_s = (60 * point.value - series.machine.epoch_s) / steps
    compute_s = measured_s
    for _ in range(4):  # losses hardly depend on it
        compute_s += measured_s - _predict(series, compute_s, point.layout).total_s
    return compute_s


def _predict(series: Series, compute_s: float, layout: Layout) -> Step:
    return predict(series.model, compute_s, layout, series.machine, series.software)


def compare(series: Series) -> list[Comparison]:
    """The model beside each point."""
    compute_s = compute_of_baseline(series)
    found = []
    for point in series.points:
        step = _predict(series, compute_s, point.layout)
        once_s = 0.0
        if point.measure == "minutes":
            steps = series.steps_per_epoch(point.layout)
            published_s = 60 * point.value / steps
            once_s = series.machine.epoch_s / steps
        else:
            published_s = compute_s / point.value
        found.append(Comparison(series, point, step, published_s, step.total_s + once_s))
    return found
