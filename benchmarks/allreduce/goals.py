"""What is wanted, and whether the rows show it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.allreduce.libraries import OURS
from benchmarks.records import Row

MIB = 1024**2
PRIVATE = ("in place", "out of place")
SHARED = ("tnt_comm.empty",)
REDUCER = ("GradientReducer",)
NEW_RESULT = ("new result",)
LATENCY_BYTES, LATENCY_US = 1024, 3.0


@dataclass(frozen=True)
class Goal:
    """At least this ratio, or at most this time, for the best of some variants."""

    ranks: int  # number of ranks it holds for
    variants: tuple[str, ...]  # of tnt-comm
    value_of: Callable[[Row], float | None]  # what is looked at; None where a row does not have it
    wanted: float
    text: str
    applies: Callable[[Row], bool]  # which workloads it is about, by a row of theirs
    is_upper: bool = False  # smaller values are better


def ratio(name: str) -> Callable[[Row], float | None]:
    """The median of a ratio."""
    return lambda row: row[name][1] if name in row else None


def is_array(row: Row) -> bool:
    """Whether the workload is one array, not the gradients of a model."""
    return str(row["workload"]).endswith("B")


def has_recycled_result(row: Row) -> bool:
    """From this size on, new results are recycled memory."""
    return is_array(row) and int(row["bytes"]) >= 64 * 1024


def is_large(row: Row) -> bool:
    """From this size on, memory counts and latency does not."""
    return is_array(row) and int(row["bytes"]) >= 4 * MIB


GOALS = (
    Goal(2, PRIVATE, ratio("vs_peer"), 1.0, "private arrays, x best peer", is_array),
    Goal(2, PRIVATE, ratio("vs_peer"), 1.4, "private arrays, x best peer",
         lambda row: row["workload"] == "100MiB"),
    Goal(2, PRIVATE, ratio("vs_memcpy"), 0.65, "private arrays, share of memcpy", is_large),
    Goal(2, SHARED, ratio("vs_peer"), 3.0, "tnt_comm.empty, x best peer", is_large),
    Goal(2, SHARED, ratio("vs_shared"), 0.8, "tnt_comm.empty, share of the shared limit", is_large),
    Goal(2, NEW_RESULT, ratio("vs_out"), 1 / 1.2, "new results, x out=", has_recycled_result),
    Goal(2, REDUCER, ratio("vs_peer"), 1.4, "GradientReducer, x best peer",
         lambda row: row["workload"] == "resnet50"),
    Goal(2, REDUCER, ratio("vs_horovod"), 4.0, "GradientReducer, x Horovod",
         lambda row: row["workload"] == "resnet50"),
    Goal(2, PRIVATE, lambda row: row["call_us"][1], LATENCY_US, "private arrays, us",
         lambda row: row["bytes"] == LATENCY_BYTES, is_upper=True),
    Goal(4, PRIVATE, ratio("vs_peer"), 1.0, "private arrays, x best peer", is_array),
)  # fmt: skip

GOALS_ACROSS_HOSTS = (
    Goal(2, PRIVATE, ratio("vs_peer"), 1.2, "two hosts, x best peer", is_large),
    Goal(2, PRIVATE, ratio("vs_gpi2"), 2.0, "two hosts, x GPI-2", is_large),
    Goal(2, PRIVATE, lambda row: row["call_us"][1], 20.0, "two hosts, us",
         lambda row: row["bytes"] == 8, is_upper=True),
)  # fmt: skip


def judge(rows: Sequence[Row], goals: Sequence[Goal]) -> Iterator[str]:
    """One line per goal and workload that was measured: what was wanted, what was seen."""
    for goal in goals:
        of_goal = [
            row for row in rows
            if row["ranks"] == goal.ranks and row["library"] == OURS
            and row["variant"] in goal.variants and goal.applies(row)
        ]  # fmt: skip
        for workload in dict.fromkeys(row["workload"] for row in of_goal):
            values = [goal.value_of(row) for row in of_goal if row["workload"] == workload]
            seen = [value for value in values if value is not None]
            if seen:
                best = min(seen) if goal.is_upper else max(seen)
                yield describe(goal, workload, best)


def describe(goal: Goal, workload: str, value: float) -> str:
    """One line."""
    is_met = value <= goal.wanted if goal.is_upper else value >= goal.wanted
    sign = "<=" if goal.is_upper else ">="
    return (
        f"{'met   ' if is_met else 'MISSED'} {goal.ranks} ranks, {workload:<16}{goal.text}: "
        f"{value:.2f} (wanted {sign} {goal.wanted:g})"
    )
