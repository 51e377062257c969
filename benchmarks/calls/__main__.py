"""Evaluate, predict and save on ranks, memory of a rank, partition time; see README.md."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from benchmarks import command
from benchmarks.first_step.__main__ import MODELS as NAMES
from benchmarks.jobs import Place
from benchmarks.records import Row, make_header
from benchmarks.spread import quartiles, rounded

CALLS = ("evaluate", "predict", "save")
KINDS = ("plain", "tnt")
WALL = 0
DEADLINE_S = 600


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = command.make_parser("calls", __doc__)
    parser.add_argument("--ranks", type=int, default=2, metavar="N")
    parser.add_argument("--samples", type=int, default=256, help="of each rank")
    parser.add_argument(
        "--models", nargs="+", choices=NAMES, default=["lenet", "mobilenet", "transformer"],
        metavar="NAME", help=f"of {', '.join(NAMES)}",
    )  # fmt: skip
    return parser


def measure(kind: str, model: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Run a job. Returns what rank 0 writes."""
    words = [kind, model, arguments.samples, arguments.rounds]
    places = [Place()] * arguments.ranks
    variables = {"TNT_LOG_LEVEL": "DEBUG"}
    return command.result_of_job("benchmarks.calls.rank", words, places, variables, DEADLINE_S)


def slowest(ranks: Sequence[dict[str, Any]], call: str) -> list[float]:
    """Seconds of each round, of the rank that took longest. Pure."""
    rounds = zip(*(rank["times"][call] for rank in ranks), strict=True)
    return [max(times[WALL] for times in each) for each in rounds]


def make_row(model: str, found: dict[str, dict[str, Any]]) -> Row:
    """Quartiles over rounds; ratios of each round of both kinds. Pure."""
    row: Row = {"model": model}
    for call in CALLS:
        times = {kind: slowest(found[kind]["ranks"], call) for kind in KINDS}
        for kind in KINDS:
            row[f"{call}_{kind}_s"] = rounded(quartiles(times[kind]), 4)
        ratios = [b / a for a, b in zip(times["plain"], times["tnt"], strict=True)]
        row[f"{call}_of_plain"] = rounded(quartiles(ratios), 3)
    for kind in KINDS:
        memory = [rank["memory_mib"] for rank in found[kind]["ranks"]]
        row[f"memory_{kind}_mib"] = round(max(memory), 1)
    row["partition_s"] = max(rank["partition_s"] for rank in found["tnt"]["ranks"])
    return row


def line_of(row: Row) -> str:
    """For people. Pure."""
    ratios = "  ".join(
        f"{call} {row[f'{call}_plain_s'][1]:.3f} s x {row[f'{call}_of_plain'][1]:.2f}"
        for call in CALLS
    )
    memory = f"memory {row['memory_plain_mib']:.0f} to {row['memory_tnt_mib']:.0f} MiB"
    return f"{row['model']:12} {ratios}  {memory}  partition {row['partition_s']:.2f} s"


def main() -> None:
    arguments = make_parser().parse_args()
    rows, versions = [], {}
    for model in arguments.models:
        found = {kind: measure(kind, model, arguments) for kind in KINDS}
        versions = found["tnt"]["versions"]
        rows.append(make_row(model, found))
        print(line_of(rows[-1]), flush=True)
    options = {name: getattr(arguments, name) for name in ("ranks", "samples", "rounds")}
    command.report(make_header("calls", versions, options), rows, [], arguments.json)


if __name__ == "__main__":
    command.run(main)
