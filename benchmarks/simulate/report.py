"""Tables for people, and rows for files, of what is checked and predicted."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.records import Row
from benchmarks.simulate.embedding import Ways
from benchmarks.simulate.measured import SlowLink
from benchmarks.simulate.predictions import Prediction
from benchmarks.simulate.published import GOAL, Comparison, Series
from benchmarks.simulate.schedules import BytesPerHost
from benchmarks.simulate.simgrid import Simulated


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Lines of Markdown. Pure."""
    lines = [f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"]
    return lines + [f"| {' | '.join(map(str, row))} |" for row in rows]


def rows_of_bytes(checked: Sequence[BytesPerHost]) -> list[Row]:
    """For a file. Pure."""
    return [
        {
            "check": "bytes per host",
            "model": each.model,
            "layout": str(each.layout),
            "levels": 2 if each.is_hierarchical else 1,
            "algorithms": each.algorithms,
            "replayed_bytes": each.replayed,
            "formula_bytes": each.by_formula,
            "error": each.error,
        }
        for each in checked
    ]


def table_of_bytes(checked: Sequence[BytesPerHost]) -> list[str]:
    """For people. Pure."""
    columns = ["model", "hosts x ranks", "levels", "algorithms", "MB per host", "formula", "error"]
    cells = [
        [
            each.model, each.layout, 2 if each.is_hierarchical else 1, each.algorithms,
            f"{each.replayed / 1e6:.2f}", f"{each.by_formula / 1e6:.2f}", f"{each.error:+.3%}",
        ]
        for each in checked
    ]  # fmt: skip
    return table(columns, cells)


def rows_of_links(links: Sequence[SlowLink]) -> list[Row]:
    """For a file. Pure."""
    return [
        {
            "check": "slow links",
            "hosts": each.hosts,
            "mbit_per_s": each.mbit_per_s,
            "threshold_bytes": each.threshold_bytes,
            "sent_bytes": each.sent_bytes,
            "replayed_bytes": each.replayed.card_bytes,
            "bytes_error": each.error_of_bytes,
            "exposed_ms": 1e3 * each.exposed_s,
            "replayed_ms": 1e3 * each.replayed_s,
            "error": each.error,
        }
        for each in links
    ]


def table_of_links(links: Sequence[SlowLink]) -> list[str]:
    """For people. Pure."""
    columns = ["hosts", "Mbit/s", "threshold", "MB sent", "replayed", "error", "exposed, ms",
               "replayed", "error of the step"]  # fmt: skip
    cells = [
        [
            each.hosts, f"{each.mbit_per_s:g}", each.threshold_bytes,
            f"{each.sent_bytes / 1e6:.1f}", f"{each.replayed.card_bytes / 1e6:.1f}",
            f"{each.error_of_bytes:+.1%}",
            f"{1e3 * each.exposed_s:.0f}", f"{1e3 * each.replayed_s:.0f}", f"{each.error:+.1%}",
        ]
        for each in links
    ]  # fmt: skip
    return table(columns, cells)


def errors_from_first(compared: Sequence[Comparison]) -> list[float]:
    """Errors if what the model lacks at the first point were known, and the same at all. Pure."""
    lacking_s = compared[0].published_s - compared[0].predicted_s
    return [(each.predicted_s + lacking_s) / each.published_s - 1 for each in compared]


def rows_of_series(compared: Sequence[Comparison]) -> list[Row]:
    """For a file. Pure."""
    rows = []
    for each, given_first in zip(compared, errors_from_first(compared), strict=True):
        row: Row = {"check": each.series.title, "model": each.series.model}
        row |= {"machine": each.series.machine.name, "layout": str(each.point.layout)}
        row |= {each.point.measure: each.point.value}
        row |= {"published_ms": 1e3 * each.published_s, "predicted_ms": 1e3 * each.predicted_s}
        rows.append({**row, "error": each.error, "error_given_first": given_first})
    return rows


def table_of_series(series: Series, compared: Sequence[Comparison]) -> list[str]:
    """For people, with what is outside of the goal and what was left out. Pure."""
    columns = ["hosts x ranks", "published", "step, ms", "predicted, ms", "error",
               "error, first point given"]  # fmt: skip
    cells = [
        [
            each.point.layout, f"{each.point.value:g} {each.point.measure}",
            f"{1e3 * each.published_s:.0f}", f"{1e3 * each.predicted_s:.0f}",
            f"{each.error:+.1%}", f"{given_first:+.1%}",
        ]
        for each, given_first in zip(compared, errors_from_first(compared), strict=True)
    ]  # fmt: skip
    lines = [f"{series.title}:", "", *table(columns, cells), ""]
    for each in compared:
        if abs(each.error) > GOAL:
            layout = str(each.point.layout)
            cause = series.causes.get(layout, "not known")
            lines.append(f"- outside: {layout}, {each.error:+.1%}. Likely cause: {cause}.")
    return lines + [f"- left out: {each}." for each in series.left_out]


def summary_of_series(compared: Sequence[Comparison]) -> str:
    """How many are inside of the goal. Pure."""
    inside = sum(abs(each.error) <= GOAL for each in compared)
    return f"{inside} of {len(compared)} published points within {GOAL:.0%}"


def rows_of_predictions(predicted: Sequence[Prediction]) -> list[Row]:
    """For a file. Pure."""
    rows = []
    for each in predicted:
        row: Row = {"prediction": each.heading, "machine": each.machine.name, "model": each.model}
        row |= {"layout": str(each.layout), "ranks": each.layout.num_ranks}
        row |= {f"{name.replace(' ', '_')}_ms": 1e3 * s for name, s in each.losses_s.items()}
        row |= {"speedup": each.speedup, "speedup_band": list(each.band)}
        row |= {"efficiency": each.speedup / each.layout.num_ranks}
        outcome = each.step.outcome
        if outcome:
            row |= {"levels": 2 if outcome.is_hierarchical else 1}
            row |= {"bytes_per_host": outcome.card_bytes}
            row |= {"thread_busy": outcome.thread_busy_s / each.total_s}
            row |= {"card_busy": outcome.card_busy_s / each.total_s}
            row |= {"memory_busy": outcome.memory_busy_s / each.total_s}
        rows.append(row)
    return rows


def table_of_predictions(predicted: Sequence[Prediction]) -> list[str]:
    """For people; all of one title and machine. Pure."""
    columns = ["ranks", "hosts x ranks", "levels", "speed-up", "band", "efficiency",
               *(f"{name}, ms" for name in predicted[0].losses_s)]  # fmt: skip
    cells = []
    for each in predicted:
        low, high = each.band
        outcome = each.step.outcome
        cells.append(
            [
                each.layout.num_ranks, each.layout,
                "" if outcome is None else 2 if outcome.is_hierarchical else 1,
                f"{each.speedup:.1f}", f"{low:.1f} to {high:.1f}",
                f"{each.speedup / each.layout.num_ranks:.2f}",
                *(f"{1e3 * s:.1f}" for s in each.losses_s.values()),
            ]
        )  # fmt: skip
    return [f"{predicted[0].heading}, {predicted[0].machine.title}:", "", *table(columns, cells)]


def rows_of_embeddings(compared: Sequence[Ways]) -> list[Row]:
    """For a file. Pure."""
    return [
        {
            "comparison": "shared embedding",
            "layout": str(each.layout),
            "now_ms": 1e3 * each.now_s,
            "rows_ms": 1e3 * each.rows_s,
            "updates_ms": 1e3 * each.updates_s,
        }
        for each in compared
    ]


def table_of_embeddings(compared: Sequence[Ways]) -> list[str]:
    """For people. Pure."""
    columns = ["hosts x ranks", "added to a step, ms", "rows of the lookup apart", "during updates"]
    cells = [
        [each.layout, *(f"{1e3 * s:.0f}" for s in (each.now_s, each.rows_s, each.updates_s))]
        for each in compared
    ]
    return table(columns, cells)


def rows_of_simgrid(compared: Sequence[Simulated]) -> list[Row]:
    """For a file. Pure."""
    return [
        {
            "check": "simgrid",
            "model": each.model,
            "step_s": each.step_s,
            "hosts": each.hosts,
            "simgrid_ms": 1e3 * each.simgrid_s,
            "replayed_ms": 1e3 * each.replayed_s,
            "error": each.error,
        }
        for each in compared
    ]


def table_of_simgrid(compared: Sequence[Simulated]) -> list[str]:
    """For people. Pure."""
    columns = ["model", "computation, ms", "hosts", "SimGrid, ms", "replay, ms", "error"]
    cells = [
        [
            each.model, f"{1e3 * each.step_s:.0f}", each.hosts,
            f"{1e3 * each.simgrid_s:.1f}", f"{1e3 * each.replayed_s:.1f}", f"{each.error:+.2%}",
        ]
        for each in compared
    ]  # fmt: skip
    return table(columns, cells)
