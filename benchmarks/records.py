"""Files of results: a line of JSON that says what was measured where, then one line per row."""

from __future__ import annotations

import json
import os
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

Row = dict[str, Any]


class Section(NamedTuple):
    """What one run has measured, or a part of a run with a header of its own."""

    header: Row
    rows: list[Row]


def make_header(benchmark: str, versions: dict[str, Any], options: dict[str, Any]) -> Row:
    """The first line of a file: what a reader needs to judge or repeat the numbers."""
    return {
        "benchmark": benchmark,
        "command": command_line(benchmark, sys.argv[1:]),
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "host": platform.node(),
        "processor": processor_name(),
        "cores": len(os.sched_getaffinity(0)),
        "commit": commit_of(Path(__file__).parent),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "versions": versions,
        "options": options,
    }


def command_line(benchmark: str, options: Sequence[str]) -> str:
    """What repeats the run. Pure."""
    return shlex.join(["python", "-m", f"benchmarks.{benchmark}", *options])


def commit_of(folder: Path) -> str:
    """The short hash of the working tree, with `-dirty` if a file differs from it."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*", "--abbrev=8"]
    try:
        described = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return described.stdout.strip()


def processor_name() -> str:
    """As Linux calls it; the architecture where it does not say."""
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def write_rows(path: Path, rows: Sequence[Row], *, is_new: bool = False) -> None:
    """Add rows to the file; a new one replaces what was there."""
    with path.open("w" if is_new else "a", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def read_rows(path: Path) -> list[Row]:
    """The rows of a file, without its headers."""
    return [row for section in read_sections(path) for row in section.rows]


def read_sections(path: Path) -> list[Section]:
    """The headers of a file, each with the rows below it; an error for a file without any."""
    sections: list[Section] = []
    for row in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        if "benchmark" in row:
            sections.append(Section(row, []))
        elif sections:
            sections[-1].rows.append(row)
        else:
            raise ValueError("its first line is not the header of a benchmark")
    return sections
