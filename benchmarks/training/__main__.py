"""Time of a step on several ranks, against as many independent processes; see README.md."""

from __future__ import annotations

import argparse
from importlib.metadata import version
from pathlib import Path

from benchmarks import command
from benchmarks.peers import PEERS_FOLDER
from benchmarks.process_set import ProcessesFailed
from benchmarks.records import Row, make_header, write_rows
from benchmarks.training.rounds import Workload, measure
from benchmarks.training.summary import HEADER, judge, line_of
from benchmarks.training.ways import COMPARISONS, NOT_MEASURED, Comparison

BATCH_SIZES = {"cnn": 32, "resnet50": 8, "transformer": 16, "transformer_base": 4}
STEPS = {"cnn": 10, "resnet50": 4, "transformer": 20, "transformer_base": 3}
OURS_ALONE = {"transformer_base": "its layers are those of Keras 3"}
"""Models that peers cannot train, and why."""


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = command.make_parser("training", __doc__)
    parser.add_argument("--ranks", type=int, default=2, metavar="N", help="of all but `one`")
    models, comparisons = list(BATCH_SIZES), list(COMPARISONS)
    parser.add_argument(
        "--models", nargs="+", choices=models, default=models, metavar="NAME",
        help=f"of {', '.join(models)}",
    )  # fmt: skip
    parser.add_argument(
        "--comparisons", nargs="+", choices=comparisons, default=comparisons, metavar="NAME",
        help=f"of {', '.join(comparisons)}: ours on one rank, ours on several, peers",
    )  # fmt: skip
    parser.add_argument("--batch-size", type=int, metavar="N",
                        help=f"samples of each rank; by default {_text(BATCH_SIZES)}")  # fmt: skip
    parser.add_argument("--steps", type=int, metavar="N",
                        help=f"of each way in each round; by default {_text(STEPS)}")  # fmt: skip
    parser.add_argument("--pixels", type=int, default=224, help="side of the images of ResNet-50")
    parser.add_argument("--layers", type=int, default=6, help="of the Transformer")
    parser.add_argument("--width", type=int, default=256, help="of the Transformer's vectors")
    parser.add_argument("--tokens", type=int, default=64, help="in a sample of the Transformer")
    parser.add_argument("--peers-folder", type=Path, default=PEERS_FOLDER, metavar="FOLDER")
    return parser


def _text(numbers: dict[str, int]) -> str:
    return ", ".join(f"{number} for {name}" for name, number in numbers.items())


def workload_of(model: str, arguments: argparse.Namespace) -> Workload:
    """What is trained, from the options. Pure."""
    return Workload(
        model=model,
        batch_size=arguments.batch_size or BATCH_SIZES[model],
        sizes=(arguments.pixels, arguments.layers, arguments.width, arguments.tokens),
        num_steps=arguments.steps or STEPS[model],
        num_rounds=arguments.rounds,
    )


def installed(arguments: argparse.Namespace) -> tuple[list[Comparison], dict[str, str]]:
    """The wanted comparisons that can be made, and why others cannot, by name."""
    found, missing = [], dict(NOT_MEASURED)
    for name in arguments.comparisons:
        comparison = COMPARISONS[name]
        if reason := comparison.ways[0].missing(arguments.peers_folder):
            missing[comparison.ways[0].name] = f"not installed: {reason}"
        else:
            found.append(comparison)
    return found, missing


def measure_all(
    comparisons: list[Comparison], missing: dict[str, str], arguments: argparse.Namespace
) -> list[str]:
    """Measure and print, row after row. Returns verdicts."""
    verdicts = []
    for model in arguments.models:
        workload = workload_of(model, arguments)
        print(f"\n{model}, {workload.batch_size} samples for each process\n{HEADER}", flush=True)
        for comparison in comparisons:
            if model in OURS_ALONE and comparison.goal is None:
                missing[f"{comparison.ways[0].name}, {model}"] = OURS_ALONE[model]
                continue
            size = comparison.size or arguments.ranks
            try:
                rows = measure(comparison, size, workload, arguments.peers_folder)
            except ProcessesFailed as failure:
                if comparison.goal is not None:
                    raise
                missing[f"{comparison.ways[0].name}, {model}"] = str(failure)
                continue
            print(*map(line_of, rows), sep="\n", flush=True)
            if arguments.json:
                write_rows(arguments.json, rows)
            verdicts += judge(comparison, rows)
    return verdicts


def main() -> None:
    arguments = make_parser().parse_args()
    names = ("ranks", "models", "comparisons", "pixels", "layers", "width", "tokens", "rounds")
    options = {name: getattr(arguments, name) for name in names}
    header = make_header("training", {"tarantella": version("tarantella")}, options)
    command.report(header, [], [], arguments.json)
    comparisons, missing = installed(arguments)
    verdicts = measure_all(comparisons, missing, arguments)
    print("", *verdicts, sep="\n")
    lacking: list[Row] = [{"way": way, "not_measured": why} for way, why in missing.items()]
    print(*(f"not measured: {row['way']}: {row['not_measured']}" for row in lacking), sep="\n")
    if arguments.json:
        write_rows(arguments.json, lacking)


if __name__ == "__main__":
    command.run(main)
