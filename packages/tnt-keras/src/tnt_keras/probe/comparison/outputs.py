"""Compare predictions: row by row, for ranks predict for rows of their own."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import numpy.typing as npt

from tnt_keras.collectives.messages import allgather
from tnt_keras.probe.comparison.combination import Fit, Fits, Share
from tnt_keras.probe.comparison.tolerance import Tolerances
from tnt_keras.probe.runs.observation import Array, Kind, Observation, Observed, Quantity
from tnt_keras.step.rules import Rule

Positions = npt.NDArray[np.int64]


def compare_outputs(
    serial: Observation,
    part: Observation,
    positions: Positions,
    tolerances: Tolerances,
    share: Share,
) -> Fits:
    """Find out whether the predictions of a part are rows of the serial ones. Collective.

    MEAN stands for rows that belong to samples, equally many to each; SAME for an output that all
    ranks have alike, whatever their samples.

    Args:
        serial: Of the serial step.
        part: Of this rank's part.
        positions: The samples of the part.
        tolerances: Of the serial values.
        share: The part of the samples that this rank has.
    """
    quantities = [quantity for quantity in serial if quantity.kind is Kind.OUTPUT]
    if not quantities:
        return {}
    own = [_own_fit(each, serial, part, positions, tolerances, share) for each in quantities]
    flags = [[rule in fit.rules for rule in Rule] for fit in own]
    shown = [[fit.serial, fit.of_rule[Rule.MEAN]] for fit in own]
    messages = allgather("proof of the step: outputs", json.dumps([flags, shown]).encode())
    of_ranks = [json.loads(message) for message in messages]
    everywhere = np.all([flags for flags, _ in of_ranks], axis=0)
    return {
        quantity: _of_all_ranks(fit, row, [shown[index] for _, shown in of_ranks])
        for index, (quantity, fit, row) in enumerate(zip(quantities, own, everywhere, strict=True))
    }


def _of_all_ranks(fit: Fit, fits_all: Any, of_ranks: list[tuple[float, float]]) -> Fit:
    """Return the fit with the rules of all ranks, and the values of the one that is farthest."""
    rules = frozenset(rule for rule, fits in zip(Rule, fits_all, strict=True) if fits)
    serial, seen = max(of_ranks, key=lambda pair: np.nan_to_num(abs(pair[0] - pair[1]), nan=np.inf))
    return dataclasses.replace(fit, rules=rules, serial=serial, of_rule=dict.fromkeys(Rule, seen))


def in_serial_order(seen: Observation, order: Positions) -> Observation:
    """Return what a run with permuted rows has seen, predictions in the serial order. Pure.

    Args:
        seen: Of the run.
        order: Which sample was at which place.
    """
    return {
        quantity: _picked(observed, np.argsort(order), len(order))
        if quantity.kind is Kind.OUTPUT
        else observed
        for quantity, observed in seen.items()
    }


def _own_fit(
    quantity: Quantity,
    serial: Observation,
    part: Observation,
    positions: Positions,
    tolerances: Tolerances,
    share: Share,
) -> Fit:
    expected, own = serial[quantity], part.get(quantity)
    tolerance = tolerances.of(quantity, expected)
    of_samples = _picked(expected, positions, share.num_global)
    rules = set()
    if own is not None and _is_near(own.entries, expected.entries, tolerance):
        rules.add(Rule.SAME)
    if not share.presence or (
        own is not None and _is_near(own.entries, of_samples.entries, tolerance)
    ):
        rules.add(Rule.MEAN)
    shown, seen = _farthest(of_samples.entries, own.entries if own is not None else None)
    return Fit(
        rules=frozenset(rules),
        says_nothing=False,
        serial=shown,
        of_rule=dict.fromkeys(Rule, seen),
        deviation=0.0,
        depends_on_order=tolerances.depends_on_order(quantity, expected),
    )


def _picked(observed: Observed, positions: Positions, num_samples: int) -> Observed:
    """Return the rows of some samples, if there are equally many rows for each sample."""
    rows = observed.entries
    if rows.ndim == 0 or len(rows) % num_samples:
        return observed
    by_sample = rows.reshape(num_samples, -1, *rows.shape[1:])[positions]
    picked = by_sample.reshape(-1, *rows.shape[1:])
    return dataclasses.replace(observed, entries=picked, after=picked)


def _farthest(expected: Array, own: Array | None) -> tuple[float, float]:
    """Return the two entries that differ most, for messages; the second is NaN without a match."""
    if own is None or own.shape != expected.shape or not own.size:
        return (float(expected.reshape(-1)[0]) if expected.size else 0.0), float("nan")
    with np.errstate(invalid="ignore"):
        place = int(np.nan_to_num(np.abs(own - expected)).argmax())
    return float(expected.reshape(-1)[place]), float(own.reshape(-1)[place])


def _is_near(one: Array, other: Array, tolerance: float) -> bool:
    if one.shape != other.shape:
        return False
    finite = np.isfinite(other)
    difference: Any = np.abs(np.where(finite, one - np.where(finite, other, 0), 0))
    return bool(np.nan_to_num(difference, nan=np.inf).max(initial=0.0) <= tolerance)
