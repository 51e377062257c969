"""Time to the first training step, and from the death of a rank to the end; see README.md."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from importlib.metadata import packages_distributions, version
from pathlib import Path

from benchmarks import command
from benchmarks.peers import PEERS_FOLDER
from benchmarks.records import Row, make_header
from benchmarks.spread import quartiles, rounded
from benchmarks.startup.launchers import OURS, PYTHONS, Launcher, find_launchers
from benchmarks.startup.points import VICTIMS
from benchmarks.startup.trial import seconds_to_end, seconds_to_first_step

START = "start"
GOAL_START_S = 0.3
GOAL_END_S = 0.5
Measured = Mapping[tuple[str, str], Sequence[float]]
"""Seconds of each round, by launcher and by what was measured: `START`, or where a rank died."""


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = command.make_parser("startup", __doc__)
    parser.add_argument("--ranks", type=int, default=2, metavar="N")
    parser.add_argument(
        "--points",
        nargs="*",
        default=list(VICTIMS),
        choices=list(VICTIMS),
        help="where a rank is killed; none: measure the start only",
    )
    parser.add_argument("--ends-only", action="store_true", help="do not measure the start")
    parser.add_argument("--launchers", nargs="+", metavar="NAME", help="those whose names hold it")
    parser.add_argument("--peers-folder", type=Path, default=PEERS_FOLDER, metavar="FOLDER")
    parser.add_argument("--timeout", type=float, default=120, help="seconds for one training")
    return parser


def measure(arguments: argparse.Namespace, launchers: Sequence[Launcher]) -> Measured:
    """Measure everything in turn, round after round: what disturbs then disturbs all alike."""
    measured: dict[tuple[str, str], list[float]] = {}
    n, timeout_s = arguments.ranks, arguments.timeout
    for _ in range(arguments.rounds):
        for launcher in launchers if not arguments.ends_only else ():
            seconds = seconds_to_first_step(launcher, n, timeout_s)
            measured.setdefault((launcher.name, START), []).append(seconds)
        for point in arguments.points:
            for launcher in filter(lambda one: one.is_watching, launchers):
                seconds = seconds_to_end(launcher, n, point, timeout_s)
                measured.setdefault((launcher.name, point), []).append(seconds)
    return measured


def make_rows(measured: Measured, num_ranks: int) -> list[Row]:
    """Quartiles over the rounds, and what a start takes longer than without a launcher. Pure."""
    rows = []
    for (name, what), seconds in measured.items():
        row: Row = {"launcher": name, "what": what, "ranks": num_ranks, "rounds": len(seconds)}
        row["seconds"] = rounded(quartiles(seconds), 3)
        alone = measured.get((PYTHONS, START))
        if what == START and alone is not None:
            added = [with_it - without for with_it, without in zip(seconds, alone, strict=True)]
            row["added_s"] = rounded(quartiles(added), 3)
        rows.append(row)
    return rows


def judged(rows: Sequence[Row]) -> list[str]:
    """Compare our medians with the goals. Pure."""
    lines = []
    for row in rows:
        if row["launcher"] in OURS and row["what"] != START:
            lines.append(_verdict(row, row["seconds"][1], GOAL_END_S, "from death to end"))
        if row["launcher"] == OURS[0] and "added_s" in row:
            lines.append(_verdict(row, row["added_s"][1], GOAL_START_S, "added to the start"))
    return lines


def _verdict(row: Row, seconds: float, goal: float, of_what: str) -> str:
    verdict = "met" if seconds <= goal else "MISSED"
    where = "" if row["what"] == START else f" at {row['what']}"
    return f"{verdict}: {row['launcher']}{where}: {seconds:.2f} s {of_what} (wanted <= {goal} s)"


def lines_of(rows: Sequence[Row]) -> list[str]:
    """A table for people. Pure."""
    lines = [f"{'launcher':24}{'what':10}{'quartiles in s':24}more than python side by side"]
    for row in rows:
        seconds, added = (
            " ".join(f"{value:.3f}" for value in row.get(key, ())) for key in ("seconds", "added_s")
        )
        lines.append(f"{row['launcher']:24}{row['what']:10}{seconds:24}{added}".rstrip())
    return lines


def versions() -> dict[str, str]:
    """What is measured, without importing it."""
    [tensorflow, *_] = packages_distributions()["tensorflow"]  # or tensorflow-cpu
    names = {"tarantella": "tarantella", "tensorflow": tensorflow, "keras": "keras"}
    return {name: version(distribution) for name, distribution in names.items()}


def main() -> None:
    arguments = make_parser().parse_args()
    words = arguments.launchers or [""]
    found = find_launchers(arguments.ranks, arguments.peers_folder)
    launchers = [one for one in found if any(word in one.name for word in words)]
    rows = make_rows(measure(arguments, launchers), arguments.ranks)
    header = make_header("startup", versions(), {})
    command.report(header, rows, [*lines_of(rows), *judged(rows)], arguments.json)


if __name__ == "__main__":
    command.run(main)
