"""How pictures of measurements look: readable on white and on black, equal for equal numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

TEXT = "#808890"
BLUE, ORANGE, GREEN, GREY = "#1f88d2", "#e07b28", "#38a169", "#7f8fa6"
SETTINGS = {
    "svg.hashsalt": "tarantella",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.titlesize": 9,
    "text.color": TEXT,
    "axes.labelcolor": TEXT,
    "axes.edgecolor": TEXT,
    "xtick.color": TEXT,
    "ytick.color": TEXT,
    "grid.color": TEXT,
    "grid.alpha": 0.25,
    "legend.framealpha": 0,
}


def pyplot() -> Any:
    """Matplotlib without a screen; installed by those who draw."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as module

    return module


def save(figure: Any, path: Path) -> None:
    """Write an SVG without a background and without a date."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, transparent=True, metadata={"Date": None})
    pyplot().close(figure)
