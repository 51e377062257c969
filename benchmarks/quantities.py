"""Which values of a row are measured, and what is better: less or more."""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple


class Better(Enum):
    """What makes a quantity better."""

    LESS = "less"
    MORE = "more"
    NEARER_ZERO = "nearer to zero"
    NEITHER = "neither"  # it describes the run or the machine


class Quantity(NamedTuple):
    """How values of one name are compared."""

    better: Better
    is_ratio: bool = False  # to something measured in the same run


# The first pattern that matches a whole name counts.
_QUANTITIES: tuple[tuple[str, Quantity | None], ...] = (
    ("bytes|threshold_bytes|mbit_per_s", None),  # what is sent, not how
    ("rounds|steps|calls|parameters|versions|threshold_kb", Quantity(Better.NEITHER)),
    (
        r"(alg|bus)bw_gbs|can_hide|sockets_hide|(spread|share)_percent|hash|\w+_(busy|band)",
        Quantity(Better.NEITHER),
    ),
    # What a model says; its error is what counts.
    (r"(published|predicted|replayed)_\w+|formula_bytes", Quantity(Better.NEITHER)),
    (r"error\w*|\w+_error", Quantity(Better.NEARER_ZERO, is_ratio=True)),
    (r"hidden|speedup|efficiency|of_ceiling|vs_\w+", Quantity(Better.MORE, is_ratio=True)),
    (
        r"(\w+_)?of_(serial|plain|first)|added(_\w+)?_percent|build_ratio",
        Quantity(Better.LESS, is_ratio=True),
    ),
    (r"\w+_per_s", Quantity(Better.MORE)),
    ("losses", Quantity(Better.LESS)),  # those of all steps of a training
    (r"ns|seconds|bytes_per_host|\w+_(s|ms|us|bytes|mib)", Quantity(Better.LESS)),
)


def quantity_of(name: str) -> Quantity | None:
    """How values of this name are compared; None for a name that says what is measured. Pure."""
    for pattern, quantity in _QUANTITIES:
        if re.fullmatch(pattern, name):
            return quantity
    return None
