"""Rows of this run against those of an earlier one."""

# Times of different runs cannot be compared on a machine that others use too, so only ratios to
# something measured in the same run are.

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple


class Change(NamedTuple):
    """One row whose ratio moved by more than the tolerance."""

    key: Hashable  # which row, and which ratio of it
    before: float  # in the earlier run; larger is better
    now: float

    @property
    def is_regression(self) -> bool:
        """Whether it became worse."""
        return self.now < self.before

    def __str__(self) -> str:
        word = "worse" if self.is_regression else "better; renew the file to keep it"
        return f"{self.key}: {self.before:.3f} -> {self.now:.3f}, {word}"


def find_changes(
    earlier: Mapping[Hashable, float], now: Mapping[Hashable, float], tolerance: float
) -> list[Change]:
    """Ratios of both runs that differ by more than `tolerance`, a share of the earlier. Pure."""
    changes = [Change(key, earlier[key], now[key]) for key in now if key in earlier]
    return [c for c in changes if abs(c.now - c.before) > tolerance * c.before]


def report(changes: Sequence[Change]) -> int:
    """Print all changes. Returns the exit status: 1 if anything became worse."""
    for change in changes:
        print(change)
    return int(any(change.is_regression for change in changes))
