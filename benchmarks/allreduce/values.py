"""Values whose sums are known by formula and exact in float32."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

PERIOD = 8191  # a prime: blocks, slices and pages that change places do not look alike


def factor_of(rank: int) -> int:
    """What the rank multiplies the pattern with. Pure."""
    return rank + 1


def patterns(arrays: Sequence[np.ndarray], factor: int) -> Iterator[np.ndarray]:
    """For each array its elements' values: number i of all of them has (i mod PERIOD) * factor."""
    period = np.arange(PERIOD, dtype=np.float32) * factor
    begin = 0
    for array in arrays:
        yield np.resize(np.roll(period, -begin), len(array))
        begin = (begin + len(array)) % PERIOD


def fill(arrays: Sequence[np.ndarray], rank: int) -> None:
    """Write what this rank contributes."""
    for array, pattern in zip(arrays, patterns(arrays, factor_of(rank)), strict=True):
        array[...] = pattern


def check(results: Sequence[np.ndarray], size: int) -> None:
    """Compare with the sum over `size` ranks, element by element."""
    expected = patterns(results, sum(map(factor_of, range(size))))
    for index, (result, wanted) in enumerate(zip(results, expected, strict=True)):
        if not np.array_equal(result, wanted):
            wrong = np.flatnonzero(result != wanted)
            raise AssertionError(
                f"wrong sum: {len(wrong)} of {len(result)} elements of array {index}, the first at "
                f"{wrong[0]}: expected {wanted[wrong[0]]}, received {result[wrong[0]]}"
            )
