"""Times of training steps with lanes and without, on several numbers of ranks; see README.md."""

from __future__ import annotations

import argparse
import statistics
from typing import Any

from benchmarks import command
from benchmarks.jobs import Place, threads_of_a_rank
from benchmarks.records import Row, make_header
from benchmarks.spread import quartiles, rounded

SECONDS_PER_STEP = 60  # far more than any
GOALS_PERCENT = {"alike": 1.0, "several": 15.0}
"""Added to a step where each rank has one lane, and where it has several."""


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = command.make_parser("lanes", __doc__)
    names = ["cnn", "resnet50", "transformer", "lenet"]
    parser.add_argument("--models", nargs="+", choices=names, default=names[:3])
    parser.add_argument("--ranks", nargs="+", type=int, default=[1, 2, 4], metavar="N")
    parser.add_argument("--lanes", type=int, default=4, metavar="V")
    parser.add_argument("--pixels", type=int, default=64, help="side of the images of ResNet-50")
    parser.add_argument("--batch-size", type=int, default=64, help="samples of a step")
    parser.add_argument("--steps", type=int, default=6, help="of each job")
    return parser


def measure(name: str, num_ranks: int, lanes: int | None, given: Any) -> dict[str, Any]:
    """Run the ranks, with the same threads for each operation; return what rank 0 writes."""
    threads = threads_of_a_rank(given.lanes)
    variables = {"TF_NUM_INTRAOP_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
    if lanes is not None:
        variables["TNT_LANES"] = str(lanes)
    return command.result_of_job(
        "benchmarks.lanes.rank",
        [name, given.pixels, given.batch_size, given.steps],
        [Place()] * num_ranks,
        variables,
        timeout_s=300 + given.steps * SECONDS_PER_STEP,
    )


def make_row(name: str, num_ranks: int, given: Any, rounds: list[list[dict[str, Any]]]) -> Row:
    """Quartiles over rounds of the time of a step, and what lanes add in each round. Pure."""
    without, with_lanes = (
        [statistics.median(wall for wall, _ in each[kind]["steps"]) for each in rounds]
        for kind in (0, 1)
    )
    added = [100 * (b / a - 1) for a, b in zip(without, with_lanes, strict=True)]
    builds = [each[1]["build_s"] / each[0]["build_s"] for each in rounds]
    memory = [[each[kind]["memory_mib"] for each in rounds] for kind in (0, 1)]
    return {
        "model": name,
        "ranks": num_ranks,
        "lanes": given.lanes,
        "batch_size": given.batch_size,
        "without_s": rounded(quartiles(without), 4),
        "with_s": rounded(quartiles(with_lanes), 4),
        "added_percent": rounded(quartiles(added), 2),
        "build_ratio": rounded(quartiles(builds), 2),
        "without_mib": rounded(quartiles(memory[0]), 0),
        "with_mib": rounded(quartiles(memory[1]), 0),
    }


def line_of(row: Row) -> str:
    """The row for people, and whether it is what is wanted. Pure."""
    goal = GOALS_PERCENT["alike" if row["ranks"] == row["lanes"] else "several"]
    added = row["added_percent"][1]
    verdict = "met" if added <= goal else "MISSED"
    return (
        f"{row['model']}, {row['lanes']} lanes on {row['ranks']} ranks: {row['with_s'][1]:g} s for "
        f"{row['without_s'][1]:g} s; {verdict}: {added:+.1f} % (wanted <= {goal:g} %); building "
        f"{row['build_ratio'][1]:g} times, {row['with_mib'][1]:g} MiB for {row['without_mib'][1]:g}"
    )


def main() -> None:
    given = make_parser().parse_args()
    rows, versions = [], {}
    for name in given.models:
        for num_ranks in given.ranks:
            rounds = []
            for _ in range(given.rounds):  # in turn
                pair = [measure(name, num_ranks, lanes, given) for lanes in (None, given.lanes)]
                rounds.append(pair)
            versions = rounds[0][0]["versions"]
            rows.append(make_row(name, num_ranks, given, rounds))
            print(line_of(rows[-1]), flush=True)
    header = make_header("lanes", versions, {})
    command.report(header, rows, [line_of(row) for row in rows], given.json)


if __name__ == "__main__":
    command.run(main)
