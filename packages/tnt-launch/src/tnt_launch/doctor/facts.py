"""What processes on hosts have found: lines of JSON on their stdout become facts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tnt_launch.hosts.cluster import Cluster
from tnt_launch.output.stream import LineSplitter
from tnt_launch.planning.plan import LaunchPlan
from tnt_launch.running.watched import run_watched


@dataclass(frozen=True)
class Fact:
    """What a process has found."""

    about: str  # `"begin"` if a check begins, `"failure"` if one has failed
    values: Mapping[str, Any] = field(default_factory=dict)


class FactReader:
    """Cuts what a process writes to stdout into facts."""

    def __init__(self) -> None:
        self._splitter = LineSplitter()

    def feed(self, data: bytes) -> list[Fact]:
        """Add bytes and return the facts that are complete now; other lines are left out."""
        facts = map(_parse, self._splitter.feed(data))
        return [fact for fact in facts if fact is not None]


def _parse(line: bytes) -> Fact | None:
    try:
        told = json.loads(line)
    except ValueError:  # something that a library prints
        return None
    kind = told.get("doctor") if isinstance(told, dict) else None
    if kind == "begin":
        return Fact("begin", {"check": told["check"]})
    return Fact(told["about"], told["values"]) if kind == "fact" else None


def collect_facts(
    plan: LaunchPlan,
    hosts: Cluster | None,  # this host alone without them
    on_fact: Callable[[int, Fact], None],
    on_end: Callable[[int, str], None],
    on_wait: Callable[[], None],
    limit_s: float,
) -> None:
    """Run a process on each host, and hand on what they find; see `run_watched`."""
    readers = {rank.rank: FactReader() for rank in plan.ranks}

    def take(rank: int, data: bytes) -> None:
        for fact in readers[rank].feed(data):
            on_fact(rank, fact)

    run_watched(plan, hosts, take, on_end, on_wait, limit_s)
