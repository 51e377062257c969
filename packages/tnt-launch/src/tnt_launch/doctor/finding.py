"""A line of the table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "note", "problem"]


@dataclass(frozen=True)
class Finding:
    """What was found out about something.

    Attributes:
        status: `"problem"` if jobs fail because of it, `"note"` if it is worth knowing.
        check: What was looked at, in a word or two.
        text: What was found.
        remedy: What to do about it, in a sentence; empty if nothing need be done.
    """

    status: Status
    check: str
    text: str
    remedy: str = ""

    def __post_init__(self) -> None:
        """Make sure that nobody is left alone with a problem."""
        assert self.remedy or self.status != "problem", self.text
