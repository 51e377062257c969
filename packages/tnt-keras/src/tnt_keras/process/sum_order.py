"""The order in which tnt-comm combines the values of all ranks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def in_order_of_ranks(values: Sequence[T], combine: Callable[[T, T], T]) -> T:
    """Combine values along the tree in which tnt-comm combines as many ranks. Pure.

    Neighbours come first, in groups of the smallest prime factor: `(x0 + x1) + (x2 + x3)` for four
    values, and `((x0 + x1) + (x2 + x3)) + (x4 + x5)` for six.
    """
    level = list(values)
    while len(level) > 1:
        fold = next(factor for factor in range(2, len(level) + 1) if len(level) % factor == 0)
        groups = (level[i : i + fold] for i in range(0, len(level), fold))
        level = [functools.reduce(combine, group) for group in groups]
    return level[0]
