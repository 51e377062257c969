"""Time and memory that the proof of a step takes before a training; see README.md."""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks import command
from benchmarks.jobs import JobFailed, Place
from benchmarks.records import Row, make_header
from benchmarks.spread import quartiles, rounded

GOAL_FIRST_STEPS = 1.0
MODELS = ("lenet", "resnet50", "transformer")
PROBES = {"proved": "error", "unproved": "off"}
"""Values of `TNT_PROBE`, by the kinds of trainings that are compared."""
SAME_LOSS = 1e-4
"""By how much losses of the first step may differ, relative: orders of summation may too."""

Trainings = Mapping[str, Sequence[dict[str, Any]]]
"""What rank 0 measured in each round, by the kind of training."""


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = command.make_parser("proof", __doc__)
    parser.add_argument("--ranks", type=int, default=2, metavar="N")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS, metavar="NAME")
    parser.add_argument("--batch-size", type=int, default=16, help="samples of each rank")
    parser.add_argument("--pixels", type=int, default=64, help="side of the images of ResNet-50")
    parser.add_argument("--layers", type=int, default=6, help="of the Transformer")
    parser.add_argument("--width", type=int, default=256, help="of the Transformer's vectors")
    parser.add_argument("--tokens", type=int, default=64, help="in a sample of the Transformer")
    parser.add_argument("--steps", type=int, default=6, help="of each training, two at least")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one training")
    return parser


def measure(arguments: argparse.Namespace) -> dict[str, Trainings]:
    """Train all models in turn, with and without proof, round after round."""
    rounds: dict[str, dict[str, list[dict[str, Any]]]] = {
        model: {kind: [] for kind in PROBES} for model in arguments.models
    }
    for _ in range(arguments.rounds):
        for model, kinds in rounds.items():
            for kind, trainings in kinds.items():
                trainings.append(train_once(model, kind, arguments))
            require_equal(model, kinds["proved"][-1], kinds["unproved"][-1])
    return {model: rounds[model] for model in arguments.models}


def train_once(model: str, kind: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """One training in processes of its own: only there is its first step the first."""
    sizes = [arguments.pixels, arguments.layers, arguments.width, arguments.tokens]
    numbers = [arguments.batch_size, arguments.steps, *sizes]
    return command.result_of_job(
        "benchmarks.proof.rank",
        [model, *numbers],
        [Place()] * arguments.ranks,
        {"TNT_PROBE": PROBES[kind]},
        timeout_s=arguments.timeout,
    )


def require_equal(model: str, proved: dict[str, Any], unproved: dict[str, Any]) -> None:
    """Check that one training began with a complete proof, and like the one without. Pure.

    Raises:
        JobFailed: If not.
    """
    if [proof["findings"] for proof in proved["proofs"]] != [0] or unproved["proofs"]:
        raise JobFailed(f"{model}: one training must be proved once, and one not at all.")
    first, expected = proved["losses"][0], unproved["losses"][0]
    if not math.isclose(first, expected, rel_tol=SAME_LOSS):
        raise JobFailed(
            f"{model}: the loss of the first step is {first} after the proof, {expected} without."
        )


def make_row(model: str, trainings: Trainings, arguments: argparse.Namespace) -> Row:
    """Quartiles over rounds; the proof is compared with the steps of the same round. Pure."""
    proved, unproved = trainings["proved"], trainings["unproved"]
    proofs = [training["proofs"][0] for training in proved]
    row: Row = {
        "model": model,
        "parameters": proved[0]["parameters"],
        "ranks": arguments.ranks,
    }
    for name in ("cpu", "wall"):
        clock = f"{name}_s"
        seconds = [proof[clock] for proof in proofs]
        first = [training["steps"][0][clock] for training in unproved]
        usual = [
            statistics.median(step[clock] for step in training["steps"][1:])
            for training in unproved
        ]
        both = [training["steps"][0][clock] for training in proved]
        row[f"proof_{clock}"] = rounded(quartiles(seconds), 3)
        row[f"first_step_{clock}"] = rounded(quartiles(first), 3)
        row[f"step_{clock}"] = rounded(quartiles(usual), 4)
        row[f"proof_and_first_step_{clock}"] = rounded(quartiles(both), 3)
        row[f"proof_in_first_steps_{name}"] = rounded(quartiles(_ratios(seconds, first)), 2)
        row[f"proof_in_steps_{name}"] = rounded(quartiles(_ratios(seconds, usual)), 1)
    for name in ("before", "highest", "after"):
        row[f"{name}_mib"] = round(statistics.median(proof[f"{name}_mib"] for proof in proofs))
    row["training_mib"] = round(statistics.median(each["highest_mib"] for each in unproved))
    return row


def _ratios(values: Sequence[float], units: Sequence[float]) -> list[float]:
    return [value / unit for value, unit in zip(values, units, strict=True)]


def judge(row: Row) -> str:
    """Whether the goal is met, in words. Pure."""
    ratio = row["proof_in_first_steps_cpu"][1]
    verdict = "met" if ratio <= GOAL_FIRST_STEPS else "MISSED"
    return (
        f"{verdict}: the proof of {row['model']} takes the CPU time of {ratio:.2f} first steps "
        f"(wanted <= {GOAL_FIRST_STEPS:g})"
    )


def main() -> None:
    arguments = make_parser().parse_args()
    rounds = measure(arguments)
    names = ("batch_size", "pixels", "layers", "width", "tokens", "steps", "rounds")
    options = {name: getattr(arguments, name) for name in names}
    versions = next(iter(rounds.values()))["proved"][0]["versions"]
    header = make_header("proof", versions, options)
    rows = [make_row(model, trainings, arguments) for model, trainings in rounds.items()]
    lines = [line for row in rows for line in ("", *command.lines_of(row))]
    command.report(header, rows, [*lines, "", *map(judge, rows)], arguments.json)


if __name__ == "__main__":
    command.run(main)
