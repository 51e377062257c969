"""Draw the logs of several runs on each other, and print how far they are apart.

    python examples/tutorials/draw_logs.py logs/serial.csv logs/two_ranks.csv --values loss

A log is what `keras.callbacks.CSVLogger` writes: a line for each epoch. Needs matplotlib.
"""

import argparse
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib import pyplot

TEXT = "#808890"  # readable on white and on black
SETTINGS = {
    "svg.hashsalt": "tutorials",  # the same picture for the same numbers
    "svg.fonttype": "none",
    "text.color": TEXT,
    "axes.labelcolor": TEXT,
    "axes.edgecolor": TEXT,
    "xtick.color": TEXT,
    "ytick.color": TEXT,
    "grid.color": TEXT,
    "grid.alpha": 0.25,
    "legend.framealpha": 0,
}


def draw(logs, values, output):
    """Draw each run thinner than the one below it, so that all can be seen."""
    with matplotlib.rc_context(SETTINGS):
        figure, axes = pyplot.subplots(
            1, len(values), figsize=(6.8, 2.8), layout="constrained", squeeze=False
        )
        for axis, value in zip(axes[0], values, strict=True):
            for number, (name, log) in enumerate(logs.items()):
                width = 6.0 / (1 + 3 * number)
                axis.plot(1 + log["epoch"], log[value], linewidth=width, label=name)
            axis.set(xlabel="epoch", title=value.replace("_", " "))
            axis.xaxis.get_major_locator().set_params(integer=True)
            axis.grid()
        axes[0][0].legend()
        figure.savefig(output, transparent=True, metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(description="Draw the logs of several runs on each other.")
    parser.add_argument("logs", type=Path, nargs="+", help="files of CSVLogger")
    parser.add_argument("--values", nargs="+", default=["loss"], help="columns to draw")
    parser.add_argument("--output", type=Path, default=Path("logs/curves.svg"))
    arguments = parser.parse_args()

    logs = {
        path.stem.replace("_", " "): np.genfromtxt(path, delimiter=",", names=True)
        for path in arguments.logs
    }
    draw(logs, arguments.values, arguments.output)
    serial, *others = logs.values()
    for value in arguments.values:
        farthest = max(np.abs(log[value] / serial[value] - 1).max() for log in others)
        print(f"{value}: largest relative difference {farthest:.1e}")


if __name__ == "__main__":
    main()
