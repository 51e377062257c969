"""Read the trace that `TNT_TIMELINE` leaves, and check that it is valid."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RESOLUTION_US = 0.002
"""Times are written in nanoseconds and read as floating-point numbers."""


@dataclass(frozen=True)
class TraceEvent:
    """A slice, or an instant, which ends when it begins.

    Attributes:
        rank: Whose event it is.
        row: Title of its row; empty for a mark of the whole rank.
        category: "thread", "collective", "bucket", "phase" or "trace".
        name: What happened.
        begin_us: When it began, in microseconds of the clock of rank 0's host.
        end_us: When it ended.
        arguments: What else is known about it.
    """

    rank: int
    row: str
    category: str
    name: str
    begin_us: float
    end_us: float
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Trace:
    """The content of a trace.

    Attributes:
        ranks: For each rank what its part says about it: its `state` ("complete", "partial" if it
            was written when another rank had ended, "started" if at start-up only, "missing") and,
            unless it is missing, its `host` and number of `dropped_events`.
        processes: Title of each rank.
        events: In the order of the file.
    """

    ranks: tuple[dict[str, Any], ...]
    processes: dict[int, str]
    events: tuple[TraceEvent, ...]

    def find(
        self, name: str | None = None, *, category: str | None = None, rank: int | None = None
    ) -> list[TraceEvent]:
        """Return the events with that name, category and rank, as far as given. Local."""
        return [
            event
            for event in self.events
            if name in (None, event.name)
            and category in (None, event.category)
            and rank in (None, event.rank)
        ]


def read_trace(path: str | os.PathLike[str]) -> Trace:
    """Read a merged trace or the part of one rank. Local.

    Raises:
        ValueError: If it is not a valid trace: no JSON, an event without what its kind needs, a row
            without title, or slices of a row that are neither nested nor apart.
    """
    content = json.loads(Path(path).read_text(encoding="utf-8"))
    info = content["otherData"]
    ranks = tuple(info.get("ranks", [info]))
    titles = _titles(content["traceEvents"])
    events = tuple(_events(content["traceEvents"], titles))
    for row in sorted({(event.rank, event.row) for event in events}):
        _check_nesting([event for event in events if (event.rank, event.row) == row])
    processes = {rank: title for (rank, row), title in titles.items() if row is None}
    return Trace(ranks, processes, events)


def _titles(raw_events: list[dict[str, Any]]) -> dict[tuple[int, int | None], str]:
    titles: dict[tuple[int, int | None], str] = {}
    for event in raw_events:
        if event["ph"] == "M" and event["name"] == "process_name":
            titles[event["pid"], None] = event["args"]["name"]
        elif event["ph"] == "M" and event["name"] == "thread_name":
            titles[event["pid"], event["tid"]] = event["args"]["name"]
    return titles


def _events(
    raw_events: list[dict[str, Any]], titles: dict[tuple[int, int | None], str]
) -> Iterator[TraceEvent]:
    for event in raw_events:
        if event["ph"] == "M":
            continue
        if event["ph"] not in ("X", "i") or (event["ph"] == "i") != ("s" in event):
            raise ValueError(f"No slice and no moment: {event}.")
        is_of_rank = event.get("s") == "p"
        key = (event["pid"], None if is_of_rank else event["tid"])
        duration_us = event["dur"] if event["ph"] == "X" else 0.0
        if key not in titles or duration_us < 0:
            raise ValueError(f"A row without title, or a negative duration: {event}.")
        yield TraceEvent(
            rank=event["pid"],
            row="" if is_of_rank else f"{event['tid']} {titles[key]}",
            category=event["cat"],
            name=event["name"],
            begin_us=event["ts"],
            end_us=event["ts"] + duration_us,
            arguments=event["args"],
        )


def _check_nesting(events: Sequence[TraceEvent]) -> None:
    open_slices: list[TraceEvent] = []
    for event in sorted(events, key=lambda event: (event.begin_us, -event.end_us)):
        while open_slices and open_slices[-1].end_us <= event.begin_us + RESOLUTION_US:
            open_slices.pop()
        if open_slices and event.end_us > open_slices[-1].end_us + RESOLUTION_US:
            raise ValueError(f"Slices overlap: {open_slices[-1]} and {event}.")
        open_slices.append(event)
