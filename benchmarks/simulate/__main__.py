"""Predict the time of training steps on many hosts, and hold the model against what is known."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

from benchmarks import command
from benchmarks.records import Row, make_header
from benchmarks.simulate import report
from benchmarks.simulate.embedding import compare_ways
from benchmarks.simulate.measured import SlowLink, measure, measured_once
from benchmarks.simulate.pictures import draw_all
from benchmarks.simulate.predictions import PREDICTIONS, Prediction, predict_all
from benchmarks.simulate.published import compare, names_of_series, series
from benchmarks.simulate.schedules import check_bytes
from benchmarks.simulate.simgrid import compare_with_simgrid
from benchmarks.simulate.sourced import WrongInput

PARTS = ("bytes", "measured", "published", "predictions", "embedding", "measure", "simgrid")
# Of clusters in predictions.toml: points of the original there.
PUBLISHED = {
    "ResNet-50, 64 nodes x 4 CPU ranks": "original_cpu_resnet50",
    "ResNet-50, 16 nodes x 6 GPUs": "original_gpu_resnet50",
    "Transformer big, 16 nodes x 6 GPUs": "original_gpu_transformer_big",
}


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulate", description=__doc__)
    parser.add_argument(
        "--parts", nargs="+", choices=PARTS, default=PARTS[:-2],
        help="measure: again what `measured` has; needs root and UCX. simgrid: needs SimGrid",
    )  # fmt: skip
    parser.add_argument(
        "--mbit", type=float, default=200, help="per second, of the link of `measure`"
    )
    parser.add_argument(
        "--hosts", type=int, nargs="+", default=[2, 4, 8], metavar="N", help="of `measure`"
    )
    parser.add_argument(
        "--predictions", type=Path, metavar="FILE", default=PREDICTIONS,
        help="what to predict, in place of predictions.toml",
    )  # fmt: skip
    parser.add_argument("--plots", type=Path, metavar="FOLDER", help="draw pictures there")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows to FILE")
    return parser


def check_schedules() -> list[Row]:
    """Bytes of each host, against formulas."""
    checked = list(check_bytes())
    print("## Bytes that a host sends in a step\n")
    print(*report.table_of_bytes(checked), "", sep="\n", flush=True)
    return report.rows_of_bytes(checked)


def check_links(title: str, links: Iterable[SlowLink]) -> list[Row]:
    """Real sums of this tree, against their replay."""
    found = list(links)
    print(f"## {title}\n", *report.table_of_links(found), "", sep="\n", flush=True)
    return report.rows_of_links(found)


def check_published() -> list[Row]:
    """Steps of others, against what they have published."""
    print("## Published results\n")
    all_compared = []
    rows = []
    for name in names_of_series():
        known = series(name)
        compared = compare(known)
        print(*report.table_of_series(known, compared), "", sep="\n", flush=True)
        all_compared += compared
        rows += report.rows_of_series(compared)
    print(report.summary_of_series(all_compared), "", sep="\n")
    return rows


def predict_steps(wanted: Path, plots: Path | None) -> list[Row]:
    """Speed-ups and losses of this tree; predictions, not measurements."""
    print("## Predictions\n")
    groups: list[Sequence[Prediction]] = []
    for group in predict_all(wanted):
        print(*report.table_of_predictions(group), "", sep="\n", flush=True)
        groups.append(group)
    if plots:
        clusters = [group for group in groups if group[0].title in PUBLISHED]
        others = [group for group in groups if group[0].title not in PUBLISHED]
        networks = {
            title: [group for group in others if group[0].title == title]
            for title in dict.fromkeys(group[0].title for group in others)
        }
        points = {title: series(name) for title, name in PUBLISHED.items()}
        print(*draw_all(clusters, networks, points, plots), sep="\n")
    return [row for group in groups for row in report.rows_of_predictions(group)]


def compare_embeddings() -> list[Row]:
    """Ways to exchange the gradient that is ready last."""
    compared = list(compare_ways())
    print("## The gradient of a shared embedding, which is ready last\n")
    print(*report.table_of_embeddings(compared), "", sep="\n", flush=True)
    return report.rows_of_embeddings(compared)


def check_simgrid() -> list[Row]:
    """The same messages in another simulator."""
    compared = list(compare_with_simgrid())
    print("## The same messages in SimGrid\n")
    print(*report.table_of_simgrid(compared), "", sep="\n", flush=True)
    return report.rows_of_simgrid(compared)


def main() -> None:
    arguments = make_parser().parse_args()
    if arguments.plots and importlib.util.find_spec("matplotlib") is None:
        sys.exit("Pictures need matplotlib: pip install matplotlib")
    rows: list[Row] = []
    if "bytes" in arguments.parts:
        rows += check_schedules()
    if "measured" in arguments.parts:
        rows += check_links("Measured once, on slow links", measured_once())
    if "published" in arguments.parts:
        rows += check_published()
    if "predictions" in arguments.parts or arguments.plots:
        rows += predict_steps(arguments.predictions, arguments.plots)
    if "embedding" in arguments.parts:
        rows += compare_embeddings()
    if "measure" in arguments.parts:
        measured = (measure(arguments.mbit, hosts) for hosts in arguments.hosts)
        rows += check_links("Measured now, on slow links", chain.from_iterable(measured))
    if "simgrid" in arguments.parts:
        rows += check_simgrid()
    header = make_header(
        "simulate", {}, {"parts": arguments.parts, "mbit": arguments.mbit, "hosts": arguments.hosts}
    )
    command.report(header, rows, [], arguments.json)


if __name__ == "__main__":
    try:
        command.run(main)
    except WrongInput as error:
        sys.exit(f"{error}")
