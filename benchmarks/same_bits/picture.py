"""Draw losses and hashes of all runs: with lanes they are the same, without they are not.

python -m benchmarks.same_bits.picture benchmarks/results/same_bits.jsonl docs/images/same_bits.svg
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.pictures import BLUE, GREEN, GREY, ORANGE, SETTINGS, pyplot, save
from benchmarks.records import Row, read_rows

COLORS = (BLUE, ORANGE, GREEN, "#b07cc6")
DASH = 5.0  # the length of one; those of equal curves are drawn one behind the other


def columns_of(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """The runs of each number of lanes, with a title. Pure."""
    of_lanes: dict[int | None, list[Row]] = {}
    for row in rows:
        of_lanes.setdefault(row["lanes"], []).append(row)
    return [
        ("without lanes" if lanes is None else f"{lanes} lanes", runs)
        for lanes, runs in of_lanes.items()
    ]


def differences(run: Row, first: Row) -> list[float]:
    """By how much the loss of each step is above that of another run. Pure."""
    return [a - b for a, b in zip(run["losses"], first["losses"], strict=True)]


def draw(rows: Sequence[Row], path: Path) -> None:
    """Write the picture as SVG."""
    import matplotlib

    columns = columns_of(rows)
    with matplotlib.rc_context(SETTINGS):
        figure, axes = pyplot().subplots(
            3, len(columns), figsize=(7.2, 4.6), height_ratios=(5, 2.5, 2), sharey="row",
            layout="constrained",
        )  # fmt: skip
        for (title, runs), (losses, above, hashes) in zip(columns, axes.T, strict=True):
            losses.set_title(title, fontsize=11)
            _draw_curves(losses, [run["losses"] for run in runs])
            _draw_curves(above, [differences(run, runs[0]) for run in runs])
            losses.tick_params(labelbottom=False)
            above.set_xlabel("step")
            _write_hashes(hashes, runs)
        axes[0][0].set_ylabel("loss")
        axes[1][0].set_ylabel("difference\nto 1 rank")
        save(figure, path)


def _draw_curves(axis: Any, curves: Sequence[Sequence[float]]) -> None:
    lie_on_each_other = len(curves) > 1 and all(curve == curves[0] for curve in curves)
    for number, (curve, color) in enumerate(zip(curves, COLORS, strict=False)):
        dashes = (number * DASH, (DASH, DASH * (len(curves) - 1)))
        style, width = (dashes, 1.6) if lie_on_each_other else ("-", 1.0)
        steps = range(1, len(curve) + 1)
        axis.plot(steps, curve, color=color, linestyle=style, linewidth=width)
    axis.grid()


def _write_hashes(axis: Any, runs: Sequence[Row]) -> None:
    axis.axis("off")
    is_same = len({run["hash"] for run in runs}) == 1
    for number, (run, color) in enumerate(zip(runs, COLORS, strict=False)):
        height = 1 - (number + 0.5) / len(runs)
        ranks = "1 rank" if run["ranks"] == 1 else f"{run['ranks']} ranks"
        word = "" if number == 0 else "same" if run["hash"] == runs[0]["hash"] else "different"
        axis.text(0.02, height, ranks, color=color, va="center", fontweight="bold")
        axis.text(0.25, height, run["hash"], va="center", family="monospace")
        axis.text(0.78, height, word, color=GREEN if is_same else GREY, va="center")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.same_bits.picture")
    parser.add_argument("results", type=Path, help="what --json of the benchmark has written")
    parser.add_argument("picture", type=Path, help="SVG to write; needs matplotlib")
    arguments = parser.parse_args()
    draw(read_rows(arguments.results), arguments.picture)


if __name__ == "__main__":
    main()
