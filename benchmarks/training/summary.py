"""From times of rounds to ratios, and what they say. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.records import Row
from benchmarks.spread import quartiles, rounded
from benchmarks.training.ways import Comparison, Way

Averages = Mapping[str, float]
"""What a step cost in one round, averaged over steps and ranks."""


def average(answers: Sequence[Averages]) -> Averages:
    """Mean over ranks."""
    return {name: sum(each[name] for each in answers) / len(answers) for name in answers[0]}


def make_rows(
    comparison: Comparison, rounds: Mapping[Way, Sequence[Averages]], common: Row
) -> list[Row]:
    """Quartiles over rounds for each way; ratios are taken within a round."""
    ceiling = [each["wall_s"] for each in rounds[comparison.ceiling]]
    rows = []
    for way, averages in rounds.items():
        row = {**common, "way": way.name, "is_ceiling": way == comparison.ceiling}
        for name in averages[0]:
            row[name] = rounded(quartiles([each[name] for each in averages]), 5)
        of_rounds = zip(ceiling, averages, strict=True)
        ratios = [ceiling_s / each["wall_s"] for ceiling_s, each in of_rounds]
        row["of_ceiling"] = rounded(quartiles(ratios), 4)
        rows.append(row)
    return rows


HEADER = (
    f"{'way':<30}{'processes':>10}{'step ms':>10}{'quartiles':>20}{'CPU ms':>10}"
    f"{'of ceiling':>12}{'quartiles':>18}"
)


def line_of(row: Row) -> str:
    """One row of the table."""
    lower, median, upper = (1e3 * seconds for seconds in row["wall_s"])
    least, ratio, most = row["of_ceiling"]
    return (
        f"{row['way']:<30}{row['processes']:>10}{median:>10.1f}{f'{lower:.1f} .. {upper:.1f}':>20}"
        f"{1e3 * row['cpu_s'][1]:>10.1f}{ratio:>12.3f}{f'{least:.3f} .. {most:.3f}':>18}"
    )


def judge(comparison: Comparison, rows: Sequence[Row]) -> list[str]:
    """Whether the goal is met, and if not, where the time goes; then what fusing changes."""
    if comparison.goal is None:
        return []
    ceiling, ours, *others = rows
    where = f"{ours['model']}, {ours['processes']} x {ours['threads']} threads"
    ratio = ours["of_ceiling"][1]
    verdict = "met" if ratio >= comparison.goal else "MISSED"
    lines = [f"{verdict}: {where}: {ratio:.3f} of the ceiling (wanted >= {comparison.goal:g})"]
    if ratio < comparison.goal:
        lines.append(where_time_goes(ours, ceiling))
    for other in others:
        shorter = 1 - other["wall_s"][1] / ours["wall_s"][1]
        lines.append(f"{where}: {100 * shorter:.1f} % less time with one operation per batch norm")
    return lines


def where_time_goes(ours: Row, ceiling: Row) -> str:
    """Of medians: what a step has more than that of the ceiling."""
    # A thread waits while communication is exposed, which includes the time that this rank is ahead
    # of others. What is left of the longer step is work, which shows in the CPU time, or a core
    # that somebody else had.

    def of(row: Row, name: str) -> float:
        return 1e3 * float(row[name][1])

    return (
        f"    step {of(ours, 'wall_s'):.1f} ms instead of {of(ceiling, 'wall_s'):.1f}: "
        f"communication is under way for {of(ours, 'communication_s'):.1f} ms and waited for "
        f"{of(ours, 'exposed_s'):.1f} ms; CPU time {of(ours, 'cpu_s'):.1f} ms instead of "
        f"{of(ceiling, 'cpu_s'):.1f}"
    )
