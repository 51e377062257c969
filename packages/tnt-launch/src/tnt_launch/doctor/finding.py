"""A line of the table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "note", "problem"]


@dataclass(frozen=True)
class Finding:
    """What was found out about something."""

    status: Status  # `"problem"` if jobs fail because of it
    check: str  # what was looked at, in a word or two
    text: str
    remedy: str = ""  # in a sentence; empty if nothing need be done

    def __post_init__(self) -> None:
        assert self.remedy or self.status != "problem", self.text
