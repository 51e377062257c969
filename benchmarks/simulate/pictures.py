"""Pictures of what is predicted: speed-ups over ranks, and where the time of a step goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.pictures import BLUE, GREEN, GREY, ORANGE, SETTINGS, TEXT, pyplot, save
from benchmarks.simulate.predictions import Prediction
from benchmarks.simulate.published import Series

Group = Sequence[Prediction]  # of one title and machine

LINES = (BLUE, ORANGE, GREEN)
PARTS = {
    "compute": GREY,
    "stragglers": "#b07cc6",
    "host memory": ORANGE,
    "progress thread": GREEN,
    "network": BLUE,
    "once per epoch": "#d64c5f",
}


def draw_all(
    clusters: Sequence[Group],
    networks: Mapping[str, Sequence[Group]],
    published: Mapping[str, Series],
    folder: Path,
) -> list[Path]:
    """Write all pictures; returns their files.

    Args:
        clusters: A group each.
        networks: By title, a group for each network.
        published: By title of a cluster, points of the original there.
        folder: Where the pictures go.
    """
    import matplotlib

    with matplotlib.rc_context(SETTINGS):
        plots = pyplot()
        pictures = {
            "simulated_speedup_on_clusters": _speedups_of_clusters(plots, clusters, published),
            "simulated_speedup_on_networks": _speedups_of_networks(plots, networks),
            "simulated_losses": _losses(plots, [*clusters, *networks_of_last(networks)]),
        }
        paths = []
        for name, figure in pictures.items():
            paths.append(folder / f"{name}.svg")
            save(figure, paths[-1])
    return paths


def networks_of_last(networks: Mapping[str, Sequence[Group]]) -> Sequence[Group]:
    """Those of the last title, which is the hardest one."""
    return list(networks.values())[-1]


def _axes(pyplot: Any, count: int, height: float) -> tuple[Any, list[Any]]:
    figure, axes = pyplot.subplots(
        1, count, figsize=(3.4 * count, height), layout="constrained", squeeze=False
    )
    return figure, list(axes[0])


def _curve(axis: Any, group: Group, color: str, label: str) -> None:
    ranks = [each.layout.num_ranks for each in group]
    low, high = zip(*(each.band for each in group), strict=True)
    axis.plot(ranks, [each.speedup for each in group], color=color, linewidth=1.5, label=label)
    axis.fill_between(ranks, low, high, color=color, alpha=0.25, linewidth=0)


def _finish(axis: Any, ranks: Sequence[int], title: str) -> None:
    axis.plot(ranks, ranks, color=TEXT, linestyle=":", linewidth=1, label="ideal")
    axis.set_xscale("log", base=2)
    axis.set_yscale("log", base=2)
    axis.set(title=title, xlabel="ranks")
    for each in (axis.xaxis, axis.yaxis):
        each.set_major_formatter("{x:g}")
    axis.grid()
    axis.legend(fontsize=7)


def _speedups_of_clusters(
    pyplot: Any, clusters: Sequence[Group], published: Mapping[str, Series]
) -> Any:
    titles = list(dict.fromkeys(group[0].title for group in clusters))
    figure, axes = _axes(pyplot, len(titles), 3.4)
    for axis, title in zip(axes, titles, strict=True):
        groups = [group for group in clusters if group[0].title == title]
        for color, group in zip((LINES[0], LINES[2]), groups, strict=False):
            order = group[0].heading.removeprefix(title)
            _curve(axis, group, color, f"this tree, predicted{order}")
        series = published.get(title)
        if series:
            ranks, speedups = speedups_published(series)
            axis.plot(ranks, speedups, "o", color=LINES[1], markersize=4,
                      label="original, published")  # fmt: skip
        _finish(axis, [each.layout.num_ranks for each in groups[0]], title)
    axes[0].set_ylabel("speed-up")
    return figure


def speedups_published(series: Series) -> tuple[list[int], list[float]]:
    """Ranks and speed-ups. Pure.

    Where the baseline has several ranks, it counts as the speed-up of as many.
    """
    points = [series.baseline, *series.points]
    ranks = [point.layout.num_ranks for point in points]
    return ranks, [ranks[0] * series.baseline.value / point.value for point in points]


def _speedups_of_networks(pyplot: Any, networks: Mapping[str, Sequence[Group]]) -> Any:
    figure, axes = _axes(pyplot, len(networks), 3.6)
    for axis, (title, groups) in zip(axes, networks.items(), strict=True):
        for color, group in zip(LINES, groups, strict=True):
            _curve(axis, group, color, f"{group[0].machine.title}, predicted")
        _finish(axis, [each.layout.num_ranks for each in groups[0]], title)
    axes[0].set_ylabel("speed-up")
    return figure


def _losses(pyplot: Any, groups: Sequence[Group]) -> Any:
    columns = 3
    rows = -(-len(groups) // columns)
    figure, axes = pyplot.subplots(
        rows, columns, figsize=(3.4 * columns, 2.6 * rows), layout="constrained", squeeze=False
    )
    for axis, group in zip(axes.flat, groups, strict=False):
        below = [0.0] * len(group)
        names = [str(each.layout.num_ranks) for each in group]
        for part, color in PARTS.items():
            shares = [each.losses_s[part] / each.step.compute_s for each in group]
            axis.bar(names, shares, bottom=below, color=color, label=part, width=0.75)
            below = [low + share for low, share in zip(below, shares, strict=True)]
        is_alone = sum(each[0].heading == group[0].heading for each in groups) == 1
        network = "" if is_alone else f"\n{group[0].machine.title}"
        axis.set(title=group[0].heading.replace(", TNT", "\nTNT") + network, xlabel="ranks")
        axis.axhline(1, color=TEXT, linewidth=0.8)
        axis.set_ylim(0, 1.05 * max(below))
        axis.tick_params(axis="x", labelsize=7)
        axis.grid(axis="y")
    for row in axes:
        row[0].set_ylabel("step, in computations")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(PARTS), fontsize=8)
    return figure
