"""Draw the losses of two runs on each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path


def draw_curves(
    curves: Mapping[str, Sequence[float]], path: str | Path, *, title: str, value: str = "loss"
) -> None:
    """Draw values over steps, each run thinner than the one below it, so that all can be seen.

    Args:
        curves: Values of each step, by name of the run.
        path: Picture to write; its suffix says what kind.
        title: Above the picture.
        value: Name of the vertical axis.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6.4, 3.6), layout="constrained")
    for number, (name, values) in enumerate(curves.items()):
        width = 5.0 / (1 + 2 * number)
        axes.plot(range(1, len(values) + 1), values, linewidth=width, label=name)
    axes.set(xlabel="step", ylabel=value, title=title)
    axes.grid(alpha=0.3)
    axes.legend()
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)
    pyplot.close(figure)
