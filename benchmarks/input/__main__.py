"""CPU time and memory of reading, decoding and augmenting images on one rank; see README.md."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import command
from benchmarks.jobs import Place
from benchmarks.records import Row, make_header
from benchmarks.spread import quartiles, rounded

GOALS = {2: 0.55, 4: 0.30}
"""CPU time of one rank over that of the serial run, by the number of ranks."""
MEMORY_GOAL = 1.1
"""Memory that input takes on one rank over that of the serial run, on any number of ranks."""

Case = tuple[str, int]
Rounds = Mapping[Case, Sequence[dict[str, Any]]]


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = command.make_parser("input", __doc__)
    parser.add_argument("--images", type=int, default=2000, metavar="N")
    parser.add_argument("--batch-size", type=int, default=64, help="samples of all ranks")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4], metavar="N")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one pass")
    return parser


def measure(arguments: argparse.Namespace) -> Rounds:
    """Measure all cases in turn, round after round: what disturbs then disturbs all alike."""
    from benchmarks.input.images import write_images

    sizes = arguments.ranks
    cases = [
        ("serial", 1),
        *((way, n) for n in sizes for way in ("tnt", "alone", "cut", "autoshard")),
    ]
    rounds: dict[Case, list[dict[str, Any]]] = {case: [] for case in cases}
    with tempfile.TemporaryDirectory() as folder:
        write_images(Path(folder), arguments.images)
        for _ in range(arguments.rounds):
            for case in cases:
                rounds[case].append(read_once(Path(folder), case, arguments))
    return rounds


def read_once(folder: Path, case: Case, arguments: argparse.Namespace) -> dict[str, Any]:
    """One pass in a process of its own, as a rank has one."""
    words = [folder, arguments.batch_size, *case]
    return command.result_of_job(
        "benchmarks.input.rank", words, [Place()], {}, timeout_s=arguments.timeout
    )


def make_row(case: Case, rounds: Rounds) -> Row:
    """Quartiles over rounds; CPU time is compared with the serial pass of the same round. Pure."""
    way, size = case
    own, serial = ([one["cpu_s"] for one in rounds[key]] for key in (case, ("serial", 1)))
    ratios = [a / b for a, b in zip(own, serial, strict=True)]
    return {
        "way": way,
        "ranks": size,
        "cpu_s": rounded(quartiles(own), 3),
        "of_serial": rounded(quartiles(ratios), 3),
        "start_s": rounded(quartiles([one["start_s"] for one in rounds[case]]), 3),
        "steps": rounds[case][0]["steps"],
        "input_mib": rounded(quartiles([one["input_mib"] for one in rounds[case]]), 1),
    }


def judge(rows: Sequence[Row]) -> list[str]:
    """Whether the goals are met, in words. Pure."""
    [serial_mib] = [row["input_mib"][1] for row in rows if row["way"] == "serial"]
    verdicts = []
    for row in rows:
        if row["way"] != "tnt":
            continue
        if row["ranks"] in GOALS:
            verdicts.append(_verdict("CPU time", row["of_serial"][1], GOALS[row["ranks"]], row))
        verdicts.append(_verdict("memory", row["input_mib"][1] / serial_mib, MEMORY_GOAL, row))
    return verdicts


def _verdict(what: str, ratio: float, goal: float, row: Row) -> str:
    verdict = "met" if ratio <= goal else "MISSED"
    numbers = f"{ratio:.3f} of serial on {row['ranks']} ranks (wanted <= {goal:g})"
    return f"{verdict}: {what} {numbers}"


def main() -> None:
    arguments = make_parser().parse_args()
    rounds = measure(arguments)
    options = {"images": arguments.images, "batch_size": arguments.batch_size}
    header = make_header("input", rounds["serial", 1][0]["versions"], options)
    rows = [make_row(case, rounds) for case in rounds]
    cells = [list(rows[0]), *(list(row.values()) for row in rows)]
    lines = [" ".join(f"{cell!s:>22}" for cell in line) for line in cells]
    command.report(header, rows, [*lines, *judge(rows)], arguments.json)


if __name__ == "__main__":
    command.run(main)
