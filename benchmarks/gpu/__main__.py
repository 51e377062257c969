"""Ask one GPU what the sums of tensors on GPUs rest on; see README.md."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from benchmarks import command
from benchmarks.gpu.driver import STAND_IN
from benchmarks.gpu.parts import PARTS, Part
from benchmarks.gpu.programs import Ended, Program, last_lines, run_program
from benchmarks.gpu.results import SMALL, Options
from benchmarks.jobs import ROOT, outer_environment
from benchmarks.records import Row, make_header, write_rows

LOOK_S = 60
LEAST_S = 5  # a program with less time left is not started
NOT_A_GPU = "NOT A GPU: the driver is the stand-in of the tests. No figure below is a measurement."


class Driver(NamedTuple):
    """What is behind the driver."""

    gpu: str
    version: int

    @property
    def is_stand_in(self) -> bool:
        """Whether its GPU is threads and memory of this host."""
        return self.gpu == STAND_IN


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    names = [part.name for part in PARTS]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--parts", nargs="+", choices=names, default=names, metavar="NAME",
                        help=f"only these of {', '.join(names)}")  # fmt: skip
    parser.add_argument("--ranks", nargs="+", type=int, metavar="N",
                        help="numbers of processes on the one GPU (default: 2 3 4)")  # fmt: skip
    parser.add_argument("--seconds", type=float, default=340, help="for all parts together")
    parser.add_argument("--small", action="store_true",
                        help="sizes that try the parts, and measure nothing")  # fmt: skip
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows to FILE")
    return parser


def find_driver() -> Driver:
    """Look at the GPU in a process of its own: a driver that hangs must not hold this one."""
    try:
        finished = subprocess.run(
            [sys.executable, "-m", "benchmarks.gpu.driver"],
            env=outer_environment(),
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=LOOK_S,
        )
    except subprocess.TimeoutExpired:
        sys.exit(f"This benchmark needs a GPU. The driver does not answer within {LOOK_S} s.")
    if finished.returncode:
        how = f"The look at the driver ended with exit code {finished.returncode}."
        sys.exit(f"This benchmark needs a GPU. {(last_lines(finished.stderr, 1) or [how])[0]}")
    found = json.loads(finished.stdout)
    return Driver(found["name"], found["driver"])


def options_of(arguments: argparse.Namespace) -> Options:
    """The sizes that the command line asks for. Pure."""
    options = SMALL if arguments.small else Options()
    return replace(options, ranks=tuple(arguments.ranks)) if arguments.ranks else options


def header_of(driver: Driver, options: Options) -> Row:
    """What a reader needs; of the stand-in first of all that it is no GPU."""
    versions = {"tnt-comm": version("tnt-comm"), "driver": driver.version, "gpu": driver.gpu}
    header = make_header("gpu", versions, asdict(options))
    return {"warning": NOT_A_GPU, **header} if driver.is_stand_in else header


class Report:
    """Prints and stores what is found, as it comes: the run may be ended at any time."""

    def __init__(self, driver: Driver, header: Row, path: Path | None) -> None:
        self._prefix = "stand-in | " if driver.is_stand_in else ""
        self._path = path
        self.missed: list[str] = []
        self.say(*command.lines_of(header))
        if path:
            write_rows(path, [header], is_new=True)

    def say(self, *lines: str) -> None:
        """Print lines, each of which tells by itself if there was no GPU."""
        for line in lines:
            print(f"{self._prefix}{line}", flush=True)

    def add(self, part: Part, program: Program, ended: Ended) -> None:
        """Take in what became of a program."""
        if not program.has_answered(ended):
            self.fail(part, program, ended)
            return
        rows = [{"part": part.name, **row} for row in part.rows(program, ended)]
        findings = part.findings(program, ended)
        self.say(*map(json.dumps, rows))
        if self._path:
            write_rows(self._path, rows)
        for finding in findings:
            if finding.is_of_time and self._prefix:
                self.say(f"not judged: {finding.words}")
                continue
            self.say(f"{'met' if finding.is_met else 'MISSED'}: {finding.words}")
            if not finding.is_met:
                self.missed.append(finding.words)

    def fail(self, part: Part, program: Program, ended: Ended) -> None:
        """Take in that a program has no answer."""
        how = f"exit code {ended.status}"
        if ended.status is None:
            how = f"not done within {program.limit_s:.0f} s"
        job = (part.name, f"{program.num_ranks or 1} ranks", program.sums, *program.others)
        self.skip(f"{', '.join(job)}: {how}")
        self.say(*(f"  {line}" for line in last_lines(ended.output)))

    def skip(self, words: str) -> None:
        """Take in what there is no answer to."""
        self.missed.append(words)
        self.say(f"FAILED: {words}")


def ask(parts: Sequence[Part], options: Options, seconds: float, to: Report) -> None:
    """Run all programs of all parts, whatever becomes of one, until the time is over."""
    deadline = time.monotonic() + seconds
    for part in parts:
        to.say("", f"== {part.name}: {part.question}")
        for program in part.programs(options):
            left_s = deadline - time.monotonic()
            if left_s < LEAST_S:
                to.skip(f"{part.name}: no time is left of {seconds:g} s")
                break
            limited = replace(program, limit_s=min(program.limit_s, left_s))
            to.add(part, limited, run_program(limited, options))


def main() -> None:
    arguments = make_parser().parse_args()
    driver = find_driver()
    if driver.is_stand_in and arguments.json:
        sys.exit(f"--json is refused. {NOT_A_GPU}")
    options = options_of(arguments)
    report = Report(driver, header_of(driver, options), arguments.json)
    parts = [part for part in PARTS if part.name in arguments.parts]
    ask(parts, options, arguments.seconds, report)
    report.say("", f"{len(report.missed)} missed or failed", *report.missed)
    if driver.is_stand_in:
        report.say(NOT_A_GPU)
    if report.missed:
        sys.exit(1)


if __name__ == "__main__":
    command.run(main)
