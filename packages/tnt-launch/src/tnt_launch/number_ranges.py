"""Numbers as people, the kernel and `taskset` write them: `0-3,8`."""

from __future__ import annotations

from collections.abc import Collection


def format_ranges(numbers: Collection[int]) -> str:
    """Write numbers, in ascending order, as ranges. Pure."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ",".join("-".join(map(str, run)) for run in runs)
