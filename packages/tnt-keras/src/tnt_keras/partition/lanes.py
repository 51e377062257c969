"""Lanes: the parts into which a batch is cut. Each of `V` lanes has every `V`-th row."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class Lanes:
    """The lanes of one process, out of those of all processes.

    Lane `v` of `V` computes the rows `v, v + V, v + 2V ...` of every batch.
    """

    first: int
    count: int  # consecutive lanes of this process
    total: int  # of all processes

    @property
    def numbers(self) -> range:
        """The lanes of this process."""
        return range(self.first, self.first + self.count)

    def num_rows(self, lane: int, num_rows: Any) -> Any:
        """Return how many of a batch's rows a lane has: `ceil((num_rows - lane) / total)`."""
        return (num_rows - lane + self.total - 1) // self.total

    def order_of_batch(self, rows: Any, num_rows: Any) -> Any:
        """Return the places of rows of the batch when all rows are sorted by lane."""
        lane, larger = rows % self.total, num_rows % self.total  # so many lanes have a row more
        before = (lane + larger - abs(lane - larger)) // 2  # of these, in front: the minimum
        return lane * (num_rows // self.total) + before + rows // self.total


def combined(values: Sequence[T], add: Callable[[T, T], T]) -> T:
    """Combine values along the tree in which all processes form sums.

    Neighbours come first, in groups of the smallest prime factor: `(x0 + x1) + (x2 + x3)` for four
    values, and `((x0 + x1) + (x2 + x3)) + (x4 + x5)` for six. The lanes of a process are a subtree.
    """
    level = list(values)
    while len(level) > 1:
        group = _smallest_prime_factor(len(level))
        level = [_in_order(level[i : i + group], add) for i in range(0, len(level), group)]
    return level[0]


def _in_order(values: Sequence[T], add: Callable[[T, T], T]) -> T:
    result = values[0]
    for value in values[1:]:
        result = add(result, value)
    return result


def _smallest_prime_factor(number: int) -> int:
    return next(factor for factor in range(2, number + 1) if number % factor == 0)
