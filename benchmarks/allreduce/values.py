"""Values whose sums are known by formula and exact in float32."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

PERIOD = 8191  # a prime: blocks, slices and pages that change places do not look alike


def factor_of(rank: int) -> int:
    """What the rank multiplies the pattern with. Pure."""
    return rank + 1


def fill(arrays: Sequence[np.ndarray], rank: int) -> None:
    """Give element i, counted over all arrays, the value `(i mod PERIOD) * factor_of(rank)`."""
    for array, pattern in zip(arrays, _patterns(arrays, factor_of(rank)), strict=True):
        array[...] = pattern


def check(results: Sequence[np.ndarray], size: int) -> None:
    """Compare sums over ranks with the formula.

    Raises:
        AssertionError: Says where the first difference is.
    """
    factor = sum(map(factor_of, range(size)))
    for index, (result, expected) in enumerate(
        zip(results, _patterns(results, factor), strict=True)
    ):
        different = np.flatnonzero(result != expected)
        if len(different):
            at = different[0]
            raise AssertionError(
                f"wrong sum: {len(different)} of {len(result)} elements of array {index}, first at "
                f"{at}: expected {expected[at]}, got {result[at]}"
            )


def _patterns(arrays: Sequence[np.ndarray], factor: int):
    begin = 0
    for array in arrays:
        pattern = np.arange(begin, begin + len(array), dtype=np.int64) % PERIOD
        yield (pattern * factor).astype(np.float32)
        begin += len(array)
