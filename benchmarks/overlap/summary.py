"""From times to the share of communication that is hidden. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from benchmarks.records import Row
from benchmarks.spread import quartiles, rounded

GOAL = 0.85
GOAL_FUSION = ("0", "32", "auto")  # all that overlap
BACKWARD_SHARE = 2 / 3  # of a step: a layer computes one product forwards, two backwards
Rounds = Mapping[str, Sequence[Sequence[float]]]


def hidden(compute_s: float, communicate_s: float, together_s: float) -> float:
    """Share of the communication that does not make the step longer."""
    return 1 - (together_s - compute_s) / communicate_s


def make_row(fusion: str, transport: str, threshold_kb: int, rounds: Rounds) -> Row:
    """Quartiles over the rounds."""
    # `can_hide`: the share that fits into backpropagation at best. `sockets_hide`: what is hidden
    # of a transfer of as many bytes through plain sockets that begins with the step.
    medians = {name: [statistics.median(times) for times in rounds[name]] for name in rounds}
    row: Row = {
        "fusion": fusion,
        "transport": transport,
        "threshold_kb": threshold_kb,
        "rounds": len(medians["compute"]),
    }
    for name, values in medians.items():
        row[f"{name}_s"] = rounded(quartiles(values), 4)
    for share, alone, both in (
        ("hidden", "communicate", "together"),
        ("sockets_hide", "transfer", "beside"),
    ):
        of_rounds = zip(medians["compute"], medians[alone], medians[both], strict=True)
        row[share] = rounded(quartiles([hidden(*times) for times in of_rounds]), 3)
    backward_s = BACKWARD_SHARE * statistics.median(medians["compute"])
    row["can_hide"] = round(min(1.0, backward_s / statistics.median(medians["communicate"])), 3)
    return row


def name_of(row: Row) -> str:
    """The option, and what `auto` has found."""
    return f"auto: {row['threshold_kb']}" if row["fusion"] == "auto" else str(row["fusion"])


def line_of(row: Row) -> str:
    """One row of the table; milliseconds and percent."""
    name = f"{name_of(row):<12}{row['transport']:<10}"
    times = "".join(
        f"{1e3 * row[f'{name}_s'][1]:>14.1f}" for name in ("compute", "communicate", "together")
    )
    lower, median, upper = (100 * share for share in row["hidden"])
    return (
        f"{name}{times}{median:>10.0f}{f'{lower:.0f} .. {upper:.0f}':>14}"
        f"{100 * row['can_hide']:>10.0f}{100 * row['sockets_hide'][1]:>14.0f}"
    )


HEADER = (
    f"{'fusion, kB':<12}{'transport':<10}{'compute ms':>14}{'communicate ms':>14}"
    f"{'together ms':>14}{'hidden %':>10}{'quartiles':>14}{'can hide':>10}{'sockets hide':>14}"
)


def judge(row: Row) -> str | None:
    """Whether the goal is met; None for a row that it is not about."""
    if row["fusion"] not in GOAL_FUSION or row["can_hide"] < 1:
        return None
    share = row["hidden"][1]
    verdict = "met   " if share >= GOAL else "MISSED"
    name = f"fusion {row['fusion']} over {row['transport']}"
    sockets = f"plain sockets beside a step: {row['sockets_hide'][1]:.0%}"
    return f"{verdict} {name}: {share:.0%} hidden (wanted >= {GOAL:.0%}; {sockets})"
