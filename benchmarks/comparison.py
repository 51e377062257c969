"""Rows of two runs against each other: what became better, what worse. Pure."""

# A row is known by all that is not measured, with the options of its run. Lists among the options
# choose rows, so a run of some models can be compared with a run of all.

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from benchmarks.quantities import Better, Quantity, quantity_of
from benchmarks.records import Row, Section
from benchmarks.spread import quartiles

NOISE = 5e-4  # relative; values without quartiles have about four digits

Key = tuple[str, ...]
Range = tuple[float, float, float]


class Change(NamedTuple):
    """One quantity of one row in both runs."""

    row: str
    name: str
    quantity: Quantity
    before: Range  # lower quartile, median, upper quartile
    now: Range

    @property
    def verdict(self) -> str:
        """Better, worse or same: ranges of quartiles that overlap are the same."""
        gap = max(self.now[0] - self.before[2], self.before[0] - self.now[2])
        size = max(map(abs, (*self.before, *self.now)))
        if gap <= NOISE * size:
            return "same"
        is_more = self.now[1] > self.before[1]
        return "better" if is_more == (self.quantity.better is Better.MORE) else "worse"

    def __str__(self) -> str:
        before, now = map(text_of_range, (self.before, self.now))
        return f"{self.verdict:8}{self.row}: {self.name} {before} -> {now}"


def text_of_range(values: Range) -> str:
    """Median, and quartiles if they differ from it."""
    lower, median, upper = (f"{value:.4g}" for value in values)
    return median if lower == upper else f"{median} ({lower} to {upper})"


def find_changes(before: Sequence[Section], now: Sequence[Section]) -> list[Change]:
    """All quantities of all rows that both runs have."""
    earlier = rows_by_key(before)
    return [
        Change(", ".join(key), name, quantity, old[name][1], values)
        for key, row in rows_by_key(now).items()
        if (old := dict(quantities_of(earlier.get(key, {}))))
        for name, (quantity, values) in quantities_of(row)
        if name in old
    ]


def rows_by_key(sections: Sequence[Section]) -> dict[Key, Row]:
    """Rows by what they measure; those that measure the same are numbered."""
    seen: Counter[Key] = Counter()
    found = {}
    for header, rows in sections:
        options = {
            name: value for name, value in header["options"].items() if not isinstance(value, list)
        }
        for row in rows:
            key = key_of({**options, **row})
            seen[key] += 1
            found[key if seen[key] == 1 else (*key, f"number {seen[key]}")] = row
    return found


def key_of(row: Row) -> Key:
    """All that is not measured, sorted by name."""
    return tuple(
        f"{name} {value if isinstance(value, str) else json.dumps(value)}"
        for name, value in sorted(row.items())
        if quantity_of(name) is None
    )


def quantities_of(row: Row) -> Iterator[tuple[str, tuple[Quantity, Range]]]:
    """All that is measured and has a direction; of several things also by their names."""
    for name, value in row.items():
        quantity = quantity_of(name)
        if quantity is None or quantity.better is Better.NEITHER:
            continue
        if isinstance(value, dict):
            several = {f"{name} of {each}": value[each] for each in value}
        else:
            several = {name: value}
        for full_name, one in several.items():
            yield full_name, (quantity, range_of(one, quantity))


def range_of(value: Any, quantity: Quantity) -> Range:
    """Three numbers are quartiles; of others, these are taken."""
    values = value if isinstance(value, list) else [value]
    lower, median, upper = values if len(values) == 3 else quartiles(values)
    if quantity.better is Better.NEARER_ZERO:
        lower, median, upper = sorted(map(abs, (lower, median, upper)))
    return float(lower), float(median), float(upper)
