"""Compare two files that a benchmark has written: what became better, what worse.

    python -m benchmarks.compare OLD.jsonl NEW.jsonl

The exit status is 1 if anything became worse, and 2 if the files cannot be compared.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.comparison import find_changes
from benchmarks.records import Section, read_sections

MACHINE = ("processor", "cores")


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.compare",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("old", type=read_results, metavar="OLD.jsonl")
    parser.add_argument("new", type=read_results, metavar="NEW.jsonl")
    parser.add_argument(
        "--ratios",
        action="store_true",
        help="only ratios to something that was measured in the same run, for busy machines",
    )
    return parser


def read_results(path: str) -> list[Section]:
    """The file of an argument, or an error of the command line."""
    try:
        return read_sections(Path(path))
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{path} is no file of results: {error}") from error


def benchmarks_of(sections: Sequence[Section]) -> str:
    """Names, as the headers give them. Pure."""
    return ", ".join(sorted({str(section.header["benchmark"]) for section in sections}))


def warnings_of(old: Sequence[Section], new: Sequence[Section]) -> Iterator[str]:
    """Differences of the machines, which make times incomparable. Pure."""
    for name in MACHINE:
        before, now = (
            sorted({str(section.header.get(name)) for section in sections})
            for sections in (old, new)
        )
        if before != now:
            yield f"warning: {name} differs: {', '.join(before)} and {', '.join(now)}"


def main() -> int:
    parser = make_parser()
    arguments = parser.parse_args()
    old, new = arguments.old, arguments.new
    if benchmarks_of(old) != benchmarks_of(new):
        names = " and ".join(map(benchmarks_of, (old, new)))
        parser.error(f"these are not two runs of one benchmark: {names}")
    changes = find_changes(old, new)
    if arguments.ratios:
        changes = [change for change in changes if change.quantity.is_ratio]
    if not changes:
        parser.error(
            "no row of the second file measures what a row of the first does; "
            "run both with the same options"
        )
    print(*warnings_of(old, new), *changes, sep="\n")
    counts = Counter(change.verdict for change in changes)
    print(", ".join(f"{counts[verdict]} {verdict}" for verdict in ("better", "worse", "same")))
    return int(counts["worse"] > 0)


if __name__ == "__main__":
    sys.exit(main())
