"""Draw the points that generators have made, each run in a panel of its own.

    python examples/tutorials/draw_points.py logs/serial.txt logs/two_ranks.txt

Needs matplotlib.
"""

import argparse
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib import pyplot

from draw_logs import SETTINGS


def draw(runs, output):
    with matplotlib.rc_context(SETTINGS):
        figure, axes = pyplot.subplots(
            1, len(runs), figsize=(6.8, 3.2), layout="constrained", sharey=True, squeeze=False
        )
        for axis, (name, points) in zip(axes[0], runs.items(), strict=True):
            axis.scatter(*points.T, s=4)
            axis.set(title=name, aspect="equal", xlim=(-1.5, 1.5), ylim=(-1.5, 1.5))
            axis.grid()
        figure.savefig(output, transparent=True, metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(description="Draw the points of several generators.")
    parser.add_argument("points", type=Path, nargs="+", help="files of gan.py")
    parser.add_argument("--output", type=Path, default=Path("logs/points.svg"))
    arguments = parser.parse_args()

    runs = {path.stem.replace("_", " "): np.loadtxt(path) for path in arguments.points}
    draw(runs, arguments.output)
    serial, *others = runs.values()
    farthest = max(np.abs(points - serial).max() for points in others)
    print(f"largest difference of a coordinate {farthest:.1e}")


if __name__ == "__main__":
    main()
