"""Rows as a table for people."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.allreduce.summary import Row

HEADER = (
    f"{'workload':<16}{'library':<18}{'variant':<16}{'median us':>12}{'quartiles us':>24}"
    f"{'algbw':>8}{'busbw':>8}{'x peer':>8}{'x copy':>8}{'x shared':>9}"
)


def ratio(row: Row, name: str) -> str:
    """Median of a ratio, or a dash."""
    return f"{row[name][1]:.2f}" if name in row else "-"


def lines_of(rows: Sequence[Row]) -> list[str]:
    """One line per row, fastest first, the limits above them."""
    ordered = sorted(rows, key=lambda row: (not row["variant"].startswith("limit"), row["median_us"]))
    return [
        f"{row['workload']:<16}{row['library']:<18}{row['variant']:<16}{row['median_us']:>12.1f}"
        f"{'{:.1f} .. {:.1f}'.format(*row['quartiles_us']):>24}{row['algbw_gbs']:>8.2f}"
        f"{row['busbw_gbs']:>8.2f}{ratio(row, 'vs_best_peer'):>8}{ratio(row, 'vs_memcpy'):>8}"
        f"{ratio(row, 'vs_shared'):>9}"
        for row in ordered
    ]
