"""Kinds of variables of which tnt-keras reads none, and options of `tarantella` that set some."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from tnt_launch.planning.grammar import Kind

_COUNT = "0*[1-9][0-9]{0,8}"
_COUNTS = re.compile(f"{_COUNT}(x{_COUNT})*")
_HOST_AND_PORT = re.compile(r"(\[[^\]\s]+\]|[^:\[\]\s]+):(?P<port>[0-9]{1,5})")


@dataclass(frozen=True)
class Text(Kind[str]):
    """Any text of at least `least_bytes` bytes."""

    least_bytes: int = 0

    @property
    def rule(self) -> str:  # type: ignore[override]
        """What a value must be, in words."""
        return f"a text of {self.least_bytes} characters or more"

    def _parse(self, word: str) -> str | None:
        return word if len(os.fsencode(word)) >= self.least_bytes else None


class HostAndPort(Kind[str]):
    """`host:port`, or `[address]:port` for IPv6."""

    rule = "host:port, or [address]:port for IPv6"

    def _parse(self, word: str) -> str | None:
        found = _HOST_AND_PORT.fullmatch(word)
        return word if found and 1 <= int(found["port"]) <= 65535 else None


class Counts(Kind[str]):
    """Numbers of at least 1 with an `x` between two of them."""

    rule = "numbers with an x between two of them, such as 6x16"

    def _parse(self, word: str) -> str | None:
        return word if _COUNTS.fullmatch(word) else None


@dataclass(frozen=True)
class Option:
    """The option of `tarantella` that sets a variable."""

    name: str
    group: str  # under which `--help` shows it
    help: str
    metavar: str | None = None
