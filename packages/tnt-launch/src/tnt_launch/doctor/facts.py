"""What the processes of `tarantella.doctor` tell, as lines of JSON, and what follows from it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tnt_launch.output.stream import LineSplitter

Status = Literal["ok", "note", "problem"]


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


@dataclass(frozen=True)
class Finding:
    """What was found out about something."""

    status: Status  # `"problem"` if jobs fail because of it
    check: str  # what was looked at, in a word or two
    text: str
    remedy: str = ""  # in a sentence; empty if nothing need be done

    def __post_init__(self) -> None:
        assert self.remedy or self.status != "problem", self.text
