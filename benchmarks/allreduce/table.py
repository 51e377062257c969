"""Rows as a table for people. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.allreduce.libraries import LIMIT
from benchmarks.records import Row

COLUMNS = f"{'library':<18}{'variant':<17}{'median us':>11}{'quartiles us':>24}"
RATIOS = {"vs_peer": "x peer", "vs_memcpy": "x memcpy", "vs_shared": "x shared", "vs_out": "x out=",
          "vs_gpi2": "x GPI-2"}  # fmt: skip
HEADER = COLUMNS + f"{'busbw':>8}" + "".join(f"{title:>10}" for title in RATIOS.values())


def lines_of(rows: Sequence[Row]) -> list[str]:
    """The rows of one workload, the limits first, then the fastest."""
    first = rows[0]
    title = f"-- {first['workload']}, {first['bytes']} bytes, {first['ranks']} ranks"
    ordered = sorted(
        rows, key=lambda row: (not row["variant"].startswith(LIMIT), row["call_us"][1])
    )
    return [title, *map(line_of, ordered)]


def line_of(row: Row) -> str:
    """One row."""
    lower, median, upper = row["call_us"]
    ratios = "".join(f"{f'{row[name][1]:.2f}' if name in row else '-':>10}" for name in RATIOS)
    return (
        f"{row['library']:<18}{row['variant']:<17}{median:>11.1f}"
        f"{f'{lower:.1f} .. {upper:.1f}':>24}{row['busbw_gbs']:>8.2f}{ratios}"
    )
