"""CPU time that Tarantella adds to the training steps of ResNet-50; see README.md."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks import command
from benchmarks.jobs import Place
from benchmarks.records import Row, make_header
from benchmarks.spread import quartiles, rounded

GOAL_PERCENT = 5.0
WALL, CPU = 0, 1
SECONDS_PER_STEP = 60  # far more than any


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = command.make_parser("step_cost", __doc__)
    parser.add_argument("--ranks", type=int, default=2, metavar="N")
    parser.add_argument("--model", choices=["resnet50", "tiny"], default="resnet50")
    parser.add_argument("--pixels", type=int, default=224, help="side of the images")
    parser.add_argument("--batch-size", type=int, default=16, help="samples of each rank")
    parser.add_argument("--steps", type=int, default=2, help="of each model in each round")
    return parser


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run the ranks. Returns what rank 0 writes."""
    numbers = [arguments.pixels, arguments.batch_size, arguments.rounds, arguments.steps]
    num_steps = 2 * (arguments.rounds * arguments.steps + 2)
    return command.result_of_job(
        "benchmarks.step_cost.rank",
        [arguments.model, *numbers],
        [Place()] * arguments.ranks,
        {},
        timeout_s=120 + num_steps * SECONDS_PER_STEP,
    )


def per_round(rounds: Sequence[Any], which: int) -> list[float]:
    """Median over the steps and ranks of each round, in seconds. Pure."""
    return [statistics.median(step[which] for steps in ranks for step in steps) for ranks in rounds]


def make_row(rounds: dict[str, Any], arguments: argparse.Namespace) -> Row:
    """Quartiles over rounds, and what is added in each round by the distributed model. Pure."""
    row: Row = {
        "ranks": arguments.ranks,
        "model": arguments.model,
        "pixels": arguments.pixels,
        "batch_size": arguments.batch_size,
        "rounds": arguments.rounds,
        "steps": arguments.steps,
    }
    for name, which in (("cpu", CPU), ("wall", WALL)):
        plain, ours = (per_round(rounds[kind], which) for kind in ("plain", "tnt"))
        added = [100 * (b / a - 1) for a, b in zip(plain, ours, strict=True)]
        row[f"plain_{name}_s"] = rounded(quartiles(plain), 4)
        row[f"tnt_{name}_s"] = rounded(quartiles(ours), 4)
        row[f"added_{name}_percent"] = rounded(quartiles(added), 2)
    return row


def main() -> None:
    arguments = make_parser().parse_args()
    measured = measure(arguments)
    header = make_header("step_cost", measured["versions"], {})
    row = make_row(measured["rounds"], arguments)
    added = row["added_cpu_percent"][1]
    verdict = "met" if added <= GOAL_PERCENT else "MISSED"
    judged = f"{verdict}: {added:.1f} % CPU time added (wanted <= {GOAL_PERCENT:g} %)"
    command.report(header, [row], [*command.lines_of(row), judged], arguments.json)


if __name__ == "__main__":
    command.run(main)
