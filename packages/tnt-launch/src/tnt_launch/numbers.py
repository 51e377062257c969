"""Numbers and lists as people read them: ranges, as the kernel writes them too, and units."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def format_ranges(numbers: Collection[int]) -> str:
    """Write numbers, in ascending order, as ranges. Pure."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ",".join("-".join(map(str, run)) for run in runs)


def bytes_text(number: float) -> str:
    """Return bytes in the largest unit of 1024 that leaves a number of at least 1. Pure."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} TiB"


def rate_text(bytes_per_s: float) -> str:
    """Return bytes per second in MB/s or GB/s, which are powers of 1000. Pure."""
    if bytes_per_s < 1e9:
        return f"{bytes_per_s / 1e6:.3g} MB/s"
    return f"{bytes_per_s / 1e9:.3g} GB/s"


def seconds_text(seconds: float) -> str:
    """Return a time in microseconds, milliseconds or seconds. Pure."""
    if abs(seconds) < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.3g} ms" if abs(seconds) < 1 else f"{seconds:.3g} s"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun. Pure."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def listed(names: Sequence[str], most: int = 4) -> str:
    """Return the first names, and how many more there are. Pure."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
