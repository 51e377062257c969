"""CPU time that Tarantella adds to the training steps of ResNet-50; see README.md."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.jobs import JobFailed, Place, end_on_sigterm, run_job
from benchmarks.records import Row, make_header, write_rows
from benchmarks.spread import quartiles, rounded

GOAL_PERCENT = 5.0
WALL, CPU = 0, 1
SECONDS_PER_STEP = 60  # far more than any


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.step_cost", description=__doc__)
    parser.add_argument("--ranks", type=int, default=2, metavar="N")
    parser.add_argument("--model", choices=["resnet50", "tiny"], default="resnet50")
    parser.add_argument("--pixels", type=int, default=224, help="side of the images")
    parser.add_argument("--batch-size", type=int, default=16, help="samples of each rank")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=2, help="of each model in each round")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the row to FILE")
    return parser


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run the ranks. Returns what rank 0 writes."""
    numbers = [arguments.pixels, arguments.batch_size, arguments.rounds, arguments.steps]
    num_steps = 2 * (arguments.rounds * arguments.steps + 2)
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "rounds.json"
        run_job(
            "benchmarks.step_cost.rank",
            [str(result), arguments.model, *map(str, numbers)],
            [Place()] * arguments.ranks,
            {},
            timeout_s=120 + num_steps * SECONDS_PER_STEP,
        )
        measured: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    return measured


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


def main() -> int:
    arguments = make_parser().parse_args()
    measured = measure(arguments)
    header = make_header("step_cost", measured["versions"], {})
    row = make_row(measured["rounds"], arguments)
    for name, value in (header | row).items():
        print(f"{name}: {value}")
    added = row["added_cpu_percent"][1]
    verdict = "met" if added <= GOAL_PERCENT else "MISSED"
    print(f"{verdict}: {added:.1f} % CPU time added (wanted <= {GOAL_PERCENT:g} %)")
    if arguments.json:
        write_rows(arguments.json, [header, row], is_new=True)
    return 0


if __name__ == "__main__":
    end_on_sigterm()
    try:
        sys.exit(main())
    except JobFailed as failure:
        sys.exit(str(failure))
