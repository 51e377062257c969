"""What the commands that run whole jobs share: options, results of rank 0, the report, the end."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from benchmarks.jobs import JobFailed, Place, end_on_sigterm, run_job
from benchmarks.process_set import ProcessesFailed
from benchmarks.records import Row, write_rows


def make_parser(benchmark: str, description: str | None) -> argparse.ArgumentParser:
    """A command line with the options that all of them have."""
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{benchmark}", description=description
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows to FILE")
    return parser


def result_of_job(
    module: str,
    arguments: Sequence[object],
    places: Sequence[Place],
    variables: Mapping[str, str],
    timeout_s: float,
) -> dict[str, Any]:
    """Run a job, and return what rank 0 writes as JSON to the file that is its first argument."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        run_job(module, [str(result), *map(str, arguments)], places, variables, timeout_s)
        measured: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    return measured


def lines_of(row: Row) -> list[str]:
    """A row or a header, one value in each line. Pure."""
    return [f"{name}: {value}" for name, value in row.items()]


def report(header: Row, rows: Sequence[Row], lines: Sequence[str], path: Path | None) -> None:
    """Print header and lines, and write header and rows to a file."""
    print(*lines_of(header), *lines, sep="\n")
    if path:
        write_rows(path, [header, *rows], is_new=True)


def run(main: Callable[[], None]) -> NoReturn:
    """Run a command to its end; a job that fails is an error with its output."""
    end_on_sigterm()
    try:
        main()
    except (JobFailed, ProcessesFailed) as failure:
        sys.exit(str(failure))
    sys.exit(0)
