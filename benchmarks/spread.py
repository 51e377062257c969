"""Median and quartiles: what every benchmark reports."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Lower quartile, median, upper quartile, interpolated between values. Pure."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    lower, median, upper = statistics.quantiles(values, n=4, method="inclusive")
    return lower, median, upper


def rounded(values: Sequence[float], digits: int) -> list[float]:
    """For files and tables. Pure."""
    return [round(value, digits) for value in values]
