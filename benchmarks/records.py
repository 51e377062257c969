"""Files of results: a line of JSON that says what was measured where, then one line per row."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def make_header(benchmark: str, versions: dict[str, Any], options: dict[str, Any]) -> Row:
    """The first line of a file: what a reader needs to judge or repeat the numbers."""
    return {
        "benchmark": benchmark,
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "host": platform.node(),
        "processor": processor_name(),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "versions": versions,
        "options": options,
    }


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
    """The rows of a file, without its header."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [row for row in map(json.loads, lines) if "benchmark" not in row]
