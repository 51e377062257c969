"""Which agent reaches which host."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

FAN_OUT = 32
"""Hosts that one process reaches itself; others are reached through these."""


@dataclass(frozen=True)
class Branch:
    """A host that is reached directly, and those that are reached through it."""

    head: int
    below: tuple[int, ...] = ()


def branches(nodes: Sequence[int], fan_out: int = FAN_OUT) -> list[Branch]:
    """Divide hosts into at most `fan_out` branches whose sizes differ by at most one. Pure."""
    count = min(len(nodes), fan_out)
    bounds = [len(nodes) * i // count for i in range(count + 1)] if count else []
    parts = [nodes[begin:end] for begin, end in itertools.pairwise(bounds)]
    return [Branch(part[0], tuple(part[1:])) for part in parts]
