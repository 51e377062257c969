"""The short table of a run, for documents: `python -m benchmarks.allreduce.results FILE`. Pure."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.allreduce.goals import PRIVATE, REDUCER, SHARED
from benchmarks.allreduce.libraries import LIMIT, OURS
from benchmarks.records import Row, read_rows

# Title, libraries by the beginning of their names, variants (None: the fastest of all).
COLUMNS: tuple[tuple[str, str, tuple[str, ...] | None], ...] = (
    ("tnt, private", OURS, PRIVATE),
    ("tnt, shared memory", OURS, SHARED),
    ("tnt, GradientReducer", OURS, REDUCER),
    ("Open MPI", "Open MPI", None),
    ("MPICH", "MPICH", None),
    ("Gloo", "Gloo", None),
    ("Horovod", "Horovod", None),
    ("memcpy", OURS, (f"{LIMIT}memcpy",)),
    ("shared limit", OURS, (f"{LIMIT}shared",)),
)


def fastest(rows: Iterable[Row], library: str, variants: tuple[str, ...] | None) -> Row | None:
    """The row of the least median among those of a column."""
    found = [
        row
        for row in rows
        if row["library"].startswith(library) and (variants is None or row["variant"] in variants)
    ]
    return min(found, key=lambda row: float(row["call_us"][1]), default=None)


def format_time(microseconds: float) -> str:
    """Three digits, in the unit that fits."""
    if microseconds < 1000:
        return f"{microseconds:.3g} us"
    return f"{microseconds / 1000:.3g} ms" if microseconds < 1e6 else f"{microseconds / 1e6:.3g} s"


def make_table(rows: Sequence[Row], ranks: int) -> list[str]:
    """Markdown: a line for each workload, medians, and our best against the best peer."""
    titles = ["workload", *(title for title, *_ in COLUMNS), "x best peer"]
    lines = ["| " + " | ".join(titles) + " |", "| --- " * len(titles) + "|"]
    of_ranks = [row for row in rows if row["ranks"] == ranks]
    for workload in dict.fromkeys(row["workload"] for row in of_ranks):
        of_workload = [row for row in of_ranks if row["workload"] == workload]
        found = [fastest(of_workload, library, variants) for _, library, variants in COLUMNS]
        cells = [format_time(row["call_us"][1]) if row else "" for row in found]
        best = fastest(of_workload, OURS, PRIVATE + SHARED + REDUCER)
        lines.append("| " + " | ".join([workload, *cells, format_ratio(best)]) + " |")
    return lines


def format_ratio(row: Row | None) -> str:
    """Median and quartiles."""
    if row is None or "vs_peer" not in row:
        return ""
    lower, median, upper = row["vs_peer"]
    return f"{median:.2f} ({lower:.2f} to {upper:.2f})"


def main() -> None:
    rows = read_rows(Path(sys.argv[1]))
    for ranks in sorted({row["ranks"] for row in rows}):
        print(f"\n{ranks} ranks:\n")
        print("\n".join(make_table(rows, ranks)))


if __name__ == "__main__":
    main()
