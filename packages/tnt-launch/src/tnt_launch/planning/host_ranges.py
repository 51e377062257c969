"""Names of hosts with ranges, as Slurm writes them: `node[01-16,20]`."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from itertools import chain, product

MAX_HOSTS_OF_A_NAME = 65_536

_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"(?P<first>[0-9]{1,18})(?:-(?P<last>[0-9]{1,18}))?", re.ASCII)


@dataclass(frozen=True)
class _Range:
    numbers: range
    digits: int  # at least

    def texts(self) -> list[str]:
        return [f"{number:0{self.digits}}" for number in self.numbers]


def expand_ranges(name: str) -> list[str]:
    """Return the hosts for which a name stands; none if it is malformed, or too many. Pure."""
    # The grammar is that of `scontrol show hostnames`, which allows brackets only at the end. All
    # numbers of a range have at least the digits of its first one. With several pairs of brackets
    # the last varies fastest.
    texts, lists = _BRACKETS.split(name)[::2], _BRACKETS.split(name)[1::2]
    if any(mark in text for text in texts for mark in "[],"):
        return []
    ranges = [[_read_range(item) for item in each.split(",")] for each in lists]
    if any(not each.numbers for each in chain.from_iterable(ranges)):
        return []
    if math.prod(sum(len(r.numbers) for r in each) for each in ranges) > MAX_HOSTS_OF_A_NAME:
        return []
    numbers = [list(chain.from_iterable(r.texts() for r in each)) for each in ranges]
    parts = [texts[:1]]
    for each, text in zip(numbers, texts[1:], strict=True):
        parts.append([number + text for number in each])
    return ["".join(each) for each in product(*parts)]


def _read_range(text: str) -> _Range:
    """Return the range that a text stands for, an empty one if it is malformed."""
    found = _RANGE.fullmatch(text)
    if found is None:
        return _Range(range(0), 0)
    first, last = int(found["first"]), int(found["last"] or found["first"])
    return _Range(range(first, last + 1), len(found["first"]))
