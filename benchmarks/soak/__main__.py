"""Train for many steps, run many jobs, and many at once; fail if anything grows. See README.md."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import command
from benchmarks.jobs import ROOT, outer_environment
from benchmarks.records import Row, make_header
from benchmarks.soak.use import ProcessUse, left_since, look_at_host

SUMS = "benchmarks.soak.sums"
LOOKS = 20
GROWTH_MIB = 5.0  # of a process from the second quarter of a training to the last one
JOB_S = 300
LEFT_S = 60  # after which nothing of a job that has ended may be there
PARTS = ("steps", "jobs", "crowd")


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--ranks", type=int, default=2, metavar="N", help="of each job")
    parser.add_argument("--steps", type=int, default=10_000, help="of one training")
    parser.add_argument("--jobs", type=int, default=500, help="one after the other")
    parser.add_argument("--crowd", type=int, default=50, help="jobs at once")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows to FILE")
    return parser


def train(ranks: int, steps: int) -> tuple[Row, list[str]]:
    """A training; its row, and what has grown."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        words = ["benchmarks.soak.steps", str(result), str(steps), str(LOOKS)]
        begin = time.monotonic()
        _wait(_start(ranks, words), JOB_S + steps / 20)
        seconds = time.monotonic() - begin
        uses = json.loads(result.read_text(encoding="utf-8"))["uses"]
    growths = [growth_of([ProcessUse(**use) for use in of_rank]) for of_rank in uses]
    row: Row = {"soak": "steps", "ranks": ranks, "steps": steps, "seconds": round(seconds, 1)}
    row |= {name: max(growth[name] for growth in growths) for name in growths[0]}
    return row, [
        f"rank {rank}: {name} has grown by {growth[name]:g}"
        for rank, growth in enumerate(growths)
        for name, limit in (("memory_mib", GROWTH_MIB), ("descriptors", 0), ("threads", 0))
        if growth[name] > limit
    ]


def growth_of(uses: Sequence[ProcessUse]) -> dict[str, float]:
    """Medians of the last quarter of the looks, less those of the second one. Pure."""
    # The first quarter is that in which tracing, caches and pools come to their size.
    quarter = max(1, len(uses) // 4)
    early, late = uses[quarter : 2 * quarter] or uses[:1], uses[-quarter:]
    return {
        name: round(
            median(getattr(u, name) for u in late) - median(getattr(u, name) for u in early), 2
        )
        for name in ("memory_mib", "descriptors", "threads")
    }


def run_jobs(ranks: int, jobs: int, at_once: int) -> tuple[Row, list[str]]:
    """So many jobs, some of them at once; their row, and what they have left."""
    before = look_at_host(SUMS)
    seconds = []
    for _ in range(0, jobs, at_once):
        begin = time.monotonic()
        with ExitStack() as stack:
            started = [stack.enter_context(_start(ranks, [SUMS])) for _ in range(at_once)]
            for process in started:
                _wait(process, JOB_S)
        seconds.append(time.monotonic() - begin)
    left = left_since(before, SUMS, LEFT_S)
    row: Row = {"soak": "crowd" if at_once > 1 else "jobs", "ranks": ranks, "jobs": jobs}
    row |= {"at_once": at_once, "seconds": round(median(seconds), 2), "slowest_s": max(seconds)}
    tenth = max(1, len(seconds) // 10)
    row |= {"first_s": median(seconds[:tenth]), "last_s": median(seconds[-tenth:])}
    row |= {"files": len(left.files), "file_bytes": left.file_bytes}
    row["processes"] = len(left.processes)
    problems = [f"{path} is left" for path in sorted(left.files)]
    return row, problems + [f"process {pid} is left" for pid in sorted(left.processes)]


def _start(ranks: int, words: Sequence[str]) -> subprocess.Popen[str]:
    launcher = [sys.executable, "-m", "tnt_launch", "-n", str(ranks), "--", "-m", *words]
    environment = outer_environment()
    return subprocess.Popen(launcher, env=environment, cwd=ROOT, stderr=subprocess.PIPE, text=True)


def _wait(process: subprocess.Popen[str], timeout_s: float) -> None:
    try:
        _, messages = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.terminate()
        _, messages = process.communicate()
        sys.exit(f"A job did not end within {timeout_s:.0f} s:\n{messages}")
    if process.returncode:
        sys.exit(f"A job ended with exit code {process.returncode}:\n{messages}")


def main() -> None:
    arguments = make_parser().parse_args()
    parts: dict[str, Any] = {
        "steps": lambda: train(arguments.ranks, arguments.steps),
        "jobs": lambda: run_jobs(arguments.ranks, arguments.jobs, 1),
        "crowd": lambda: run_jobs(arguments.ranks, arguments.crowd, arguments.crowd),
    }
    rows, problems = [], []
    for part in arguments.parts:
        row, found = parts[part]()
        print(*command.lines_of(row), "", sep="\n", flush=True)
        rows.append(row)
        problems += found
    header = make_header("soak", {}, {"parts": list(arguments.parts)})
    command.report(header, rows, [], arguments.json)
    if problems:
        sys.exit("\n".join(["MISSED: nothing grows", *problems]))
    print("met: nothing grows")


if __name__ == "__main__":
    command.run(main)
