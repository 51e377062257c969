"""Time until the first training step has ended, against plain Keras; see README.md."""

from __future__ import annotations

import argparse
from typing import Any

from benchmarks import command
from benchmarks.jobs import Place
from benchmarks.records import Row, make_header
from benchmarks.spread import quartiles, rounded

MODELS = (
    "mlp", "lenet", "bidirectional_lstm", "text_lstm", "mobilenet", "efficientnet", "resnet50",
    "transformer",
)  # fmt: skip
WALL, CPU = 0, 1
DEADLINE_S = 600


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = command.make_parser("first_step", __doc__)
    parser.add_argument("--ranks", type=int, default=2, metavar="N")
    parser.add_argument(
        "--models", nargs="+", choices=MODELS, default=MODELS, metavar="NAME",
        help=f"of {', '.join(MODELS)}",
    )  # fmt: skip
    parser.add_argument(
        "--number", type=int, default=1, metavar="N",
        help="models of each name that a process trains, one after the other",
    )  # fmt: skip
    return parser


def measure(kind: str, model: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Run a job. Returns what rank 0 writes."""
    # Plain models do not communicate, and so do not notice that they are ranks of a job.
    return command.result_of_job(
        "benchmarks.first_step.rank",
        [kind, model, arguments.number],
        [Place()] * arguments.ranks,
        {},
        timeout_s=DEADLINE_S,
    )


def make_row(model: str, rounds: list[dict[str, Any]]) -> Row:
    """Quartiles over the rounds, in seconds and of ratios within a round. Pure."""
    row: Row = {"model": model}
    for name, epoch in (("first", 0), ("later", -1)):
        for clock, which in (("wall", WALL), ("cpu", CPU)):
            times = {
                kind: [each[kind]["epochs"][0][epoch][which] for each in rounds]
                for kind in ("plain", "tnt")
            }
            for kind, seconds in times.items():
                row[f"{name}_{kind}_{clock}_s"] = rounded(quartiles(seconds), 4)
            ratios = [b / a for a, b in zip(times["plain"], times["tnt"], strict=True)]
            row[f"{name}_{clock}_of_plain"] = rounded(quartiles(ratios), 3)
    ratios = [each["tnt"]["all"][0][WALL] / each["plain"]["all"][0][WALL] for each in rounds]
    row["all_of_plain"] = rounded(quartiles(ratios), 3)
    return row


def line_of(row: Row) -> str:
    """For people. Pure."""
    first, later = (
        f"{row[f'{name}_plain_wall_s'][1]:8.3f} {row[f'{name}_tnt_wall_s'][1]:8.3f} "
        f"{row[f'{name}_wall_of_plain'][1]:6.2f} {row[f'{name}_cpu_of_plain'][1]:6.2f}"
        for name in ("first", "later")
    )
    return f"{row['model']:20} {first}  {later} {row['all_of_plain'][1]:6.2f}"


HEADER = (
    f"{'until the first step has ended':20} {'plain':>4} {'tnt':>8} {'ratio':>6} {'CPU':>6}  "
    f"{'later':>8} {'tnt':>8} {'ratio':>6} {'CPU':>6} {'all':>6}"
)


def main() -> None:
    arguments = make_parser().parse_args()
    rows, versions = [], {}
    print(HEADER, flush=True)
    for model in arguments.models:
        rounds = []
        for number in range(arguments.rounds):
            kinds = ("plain", "tnt") if number % 2 else ("tnt", "plain")
            rounds.append({kind: measure(kind, model, arguments) for kind in kinds})
            versions = rounds[-1]["tnt"]["versions"]
        rows.append(make_row(model, rounds))
        print(line_of(rows[-1]), flush=True)
    options = {name: getattr(arguments, name) for name in ("ranks", "number", "rounds")}
    header = make_header("first_step", versions, options)
    command.report(header, rows, [], arguments.json)


if __name__ == "__main__":
    command.run(main)
