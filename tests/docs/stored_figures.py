"""Numbers of a file of results, by what they are numbers of."""

import re
from collections import defaultdict
from functools import cache

from benchmarks.records import read_sections

# Units of pages, in seconds, bytes, bytes per second; a share has none.
UNITS = {
    "time": {"s": 1, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9, "seconds": 1,
             "milliseconds": 1e-3, "microseconds": 1e-6, "nanoseconds": 1e-9},
    "size": {"bytes": 1, "B": 1, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2**10,
             "MiB": 2**20, "GiB": 2**30},
    "rate": {"GB/s": 1e9, "MB/s": 1e6},
    "share": {"%": 0.01, "percent": 0.01, "times": 1, "x": 1},
}  # fmt: skip
DIMENSION_OF = {unit: dimension for dimension, units in UNITS.items() for unit in units}

# The last words of names in rows; other numbers are shares, ratios and counts.
ENDINGS = {
    "s": ("time", 1), "ms": ("time", 1e-3), "us": ("time", 1e-6), "ns": ("time", 1e-9),
    "seconds": ("time", 1), "bytes": ("size", 1), "mib": ("size", 2**20), "host": ("size", 1),
    "gbs": ("rate", 1e9), "percent": ("share", 0.01),
}  # fmt: skip
AS_STORED = "as stored"
LABEL = "label"  # numbers in names of what was measured


class Values:
    """The numbers and names of one row."""

    def __init__(self, row):
        self.names = set()
        self._numbers = defaultdict(list)
        self._add("", {name: value for name, value in row.items() if name != "figure"})

    def _add(self, name, value):
        if isinstance(value, dict):
            for key, each in value.items():
                self._add_label(key)
                self._add(name or key, each)
        elif isinstance(value, list):
            for each in value:
                self._add(name, each)
        elif isinstance(value, str):
            self.names.add(value)
            self._add_label(value)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            dimension, factor = ENDINGS.get(name.rpartition("_")[2], ("share", 1))
            self._numbers[dimension].append(value * factor)
            self._numbers[AS_STORED].append(value)

    def _add_label(self, text):
        self._numbers[LABEL] += map(float, re.findall(r"\d+(?:\.\d+)?", text))

    def in_unit(self, unit):
        """All that a number of this unit can be; without a unit, what is stored."""
        yield from self._numbers[LABEL]
        dimension = DIMENSION_OF.get(unit, AS_STORED)
        factor = UNITS[dimension][unit] if dimension in UNITS else 1
        yield from (number / factor for number in self._numbers[dimension])


class Stored:
    """What a file holds."""

    def __init__(self, path):
        self._rows = []
        self._options = []
        for header, rows in read_sections(path):
            self._rows += map(Values, rows)
            self._options.append(Values(header["options"]))
        self._names = set().union(*(row.names for row in self._rows))

    def holds(self, figure):
        """Whether a row is about what the table says, and has this figure when rounded."""
        about = self._names.intersection(figure.labels)
        rows = [row for row in self._rows if about <= row.names]
        return any(
            is_near(number, figure)
            for values in (*rows, *self._options)
            for unit in figure.units
            for number in values.in_unit(unit)
        )


def is_near(number, figure):
    """The same to the precision of the page; only a sign on the page must be that of the number."""
    if figure.text[0] not in "+-":
        number = abs(number)
    return abs(number - figure.number) <= figure.half_digit * (1 + 1e-9)


@cache
def stored(path):
    """Read a file once."""
    return Stored(path)
