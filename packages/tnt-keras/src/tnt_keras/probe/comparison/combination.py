"""Combine what the parts of all ranks gave by every rule, and compare with the serial values."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tnt_keras.collectives.errors import DifferentInputError
from tnt_keras.collectives.messages import allgather, allreduce
from tnt_keras.collectives.replicas import compare_texts
from tnt_keras.probe.comparison.tolerance import Tolerances
from tnt_keras.probe.runs.observation import (
    OF_EACH_RANK,
    Array,
    Kind,
    Observation,
    Observed,
    Quantity,
)
from tnt_keras.process.rank import MASTER_RANK, get_rank
from tnt_keras.step.rules import Rule

_MESSAGE = "proof of the step"


@dataclasses.dataclass(frozen=True)
class Share:
    """The part of the samples that this rank has.

    Attributes:
        num_local: Its samples.
        num_global: Those of all ranks.
    """

    num_local: int
    num_global: int

    @property
    def weight(self) -> float:
        """The share of the samples."""
        return self.num_local / self.num_global

    @property
    def presence(self) -> float:
        """1 if there are samples, else 0."""
        return float(self.num_local > 0)


@dataclasses.dataclass(frozen=True)
class Fit:
    """How a value of the ranks combines to the serial one.

    Attributes:
        rules: Those that give the serial value.
        says_nothing: Whether the serial value is zero within the tolerance: any rule would do.
        serial: The serial value where MEAN is farthest from it.
        of_rule: What each rule gives there.
        deviation: Of the nearest rule, relative to the largest entry.
        scale: The largest serial entry, as this rank has computed it.
        adds_up_slices: Of a sparse gradient: slices of one index are added up; None if neither
            that nor their concatenation gives the serial slices.
        depends_on_order: Whether the serial value depends on the order of rows.
        are_amplified: Whether the values are those with much larger gradients.
        has_other_values: Whether they are those of samples with other values than the data.
    """

    rules: frozenset[Rule]
    says_nothing: bool
    serial: float
    of_rule: dict[Rule, float]
    deviation: float
    scale: float = 0.0
    adds_up_slices: bool | None = False
    depends_on_order: bool = False
    are_amplified: bool = False
    has_other_values: bool = False


Fits = dict[Quantity, Fit]


def compare(serial: Observation, part: Observation, tolerances: Tolerances, share: Share) -> Fits:
    """Find the rules by which the values of the ranks' parts give the serial ones. Collective.

    Two sums and a maximum over ranks suffice, however many they are:

        MEAN: sum_r (n_r / n) * v_r    SUM: sum_r v_r    MAX: max_r v_r    SAME: v_r

    Args:
        serial: Of the serial step on all samples, equal on all ranks.
        part: Of this rank's part.
        tolerances: Of the serial values.
        share: The part of the samples that this rank has.

    Returns:
        One for each value but predictions, equal on all ranks save for `serial`, `of_rule`
        and `scale`, which are for messages.

    Raises:
        DifferentInputError: On all ranks, if their steps compute different things.
    """
    quantities = [each for each in _all_quantities(serial, part) if each.kind is not Kind.OUTPUT]
    _require_same_structure(quantities, serial, part)
    own = [_own(quantity, serial, part, share) for quantity in quantities]
    reference = [serial.get(quantity) or _unchanged(part[quantity]) for quantity in quantities]
    candidates = _candidates(own, reference, share)
    ends = np.cumsum([len(each.entries) for each in own])
    candidates_of = {rule: np.split(values, ends[:-1]) for rule, values in candidates.items()}
    slices = _slices(quantities, serial, part, share)
    fits = {
        quantity: _fit(
            quantity,
            reference[index],
            {rule: values[index] for rule, values in candidates_of.items()},
            tolerances,
            slices.get(quantity, False),
        )
        for index, quantity in enumerate(quantities)
    }
    return _agreed(fits)


def _all_quantities(serial: Observation, part: Observation) -> list[Quantity]:
    """Return what any rank has seen, in an order that is the same on all."""
    return [*serial, *(quantity for quantity in part if quantity not in serial)]


def _require_same_structure(
    quantities: Sequence[Quantity], serial: Observation, part: Observation
) -> None:
    sizes = [len((serial.get(each) or part[each]).entries) for each in quantities]
    values = [
        f"the {quantity.kind.value} {quantity.name!r} of {size} entries"
        for quantity, size in zip(quantities, sizes, strict=True)
    ]
    difference = compare_texts(f"{_MESSAGE}: names", values, missing="nothing more")
    if difference is None:
        return
    raise DifferentInputError(
        f"Rank {get_rank()}: the steps of the ranks compute different things: "
        f"{difference.of_master_rank} on rank {MASTER_RANK}, {difference.of_rank} on rank "
        f"{difference.rank}. Every rank must build and compile the same model and run the same "
        "code, whatever number of samples it has."
    )


def _own(quantity: Quantity, serial: Observation, part: Observation, share: Share) -> Observed:
    """Return what this rank contributes; a rank without samples contributes nothing."""
    seen = part.get(quantity)
    if seen is None or (
        quantity in serial and seen.entries.shape != serial[quantity].entries.shape
    ):
        seen = serial[quantity].zeros()
    return seen if share.presence or quantity.kind in OF_EACH_RANK else seen.zeros()


def _unchanged(seen: Observed) -> Observed:
    return dataclasses.replace(seen.zeros(), scale=0.0, after=seen.after - seen.entries)


def _candidates(
    own: Sequence[Observed], reference: Sequence[Observed], share: Share
) -> dict[Rule, Array]:
    """Return, one after the other, the entries of all values as each rule combines them."""
    entries = _concatenated([each.entries for each in own])
    after = _concatenated([each.after for each in own])
    lowest = after if share.presence else np.full_like(after, -np.inf)
    before = _concatenated([each.after - each.entries for each in reference])
    with np.errstate(invalid="ignore", over="ignore"):
        largest = allreduce(f"{_MESSAGE}: largest values", lowest, "max") - before
    return {
        Rule.MEAN: allreduce(f"{_MESSAGE}: means", entries * share.weight),
        Rule.SUM: allreduce(f"{_MESSAGE}: sums", entries * share.presence),
        Rule.MAX: largest,
        Rule.SAME: entries,
    }


def _concatenated(arrays: Sequence[Array]) -> Array:
    return np.concatenate(arrays) if arrays else np.zeros(0)


def _fit(
    quantity: Quantity,
    serial: Observed,
    candidates: dict[Rule, Array],
    tolerances: Tolerances,
    adds_up_slices: bool | None,
) -> Fit:
    tolerance = tolerances.of(quantity, serial)
    # NaN becomes an integer of any size, whose sums depend on where they wrap around.
    finite = np.isfinite(serial.entries) & ~(np.abs(candidates[Rule.SUM]) >= serial.limit)
    distances = {
        rule: _distance(values, serial.entries, finite) for rule, values in candidates.items()
    }
    worst = _place_of_worst(candidates[Rule.MEAN], serial.entries, finite)
    says_nothing = _largest(serial.entries, finite) <= tolerance
    return Fit(
        rules=frozenset(rule for rule, distance in distances.items() if distance <= tolerance),
        says_nothing=says_nothing,
        serial=float(serial.entries[worst]) if len(serial.entries) else 0.0,
        of_rule={
            rule: float(values[worst]) if len(values) else 0.0
            for rule, values in candidates.items()
        },
        deviation=0.0 if says_nothing else min(distances.values()) / (serial.scale or 1.0),
        scale=serial.scale,
        adds_up_slices=adds_up_slices,
        depends_on_order=tolerances.depends_on_order(quantity, serial),
    )


def _distance(values: Array, serial: Array, finite: npt.NDArray[np.bool_]) -> float:
    """Return the largest difference where the serial value counts; inf if it alone is finite."""
    difference = np.abs(values - serial, where=finite, out=np.zeros_like(serial))
    return float(np.nan_to_num(difference, nan=np.inf, posinf=np.inf).max(initial=0.0))


def _place_of_worst(values: Array, serial: Array, finite: npt.NDArray[np.bool_]) -> int:
    if not len(serial):
        return 0
    difference = np.abs(values - serial, where=finite, out=np.zeros_like(serial))
    return int(np.nan_to_num(difference, nan=np.inf).argmax())


def _largest(values: Array, finite: npt.NDArray[np.bool_]) -> float:
    return float(np.abs(values[finite]).max(initial=0.0))


def _slices(
    quantities: Sequence[Quantity], serial: Observation, part: Observation, share: Share
) -> dict[Quantity, bool | None]:
    """Return of each sparse gradient how the slices of ranks become the serial ones."""
    sparse = [
        quantity
        for quantity in quantities
        if quantity in serial and serial[quantity].indices is not None
    ]
    found: dict[Quantity, bool | None] = {}
    for quantity in sparse:
        own = part[quantity].indices if quantity in part and share.presence else None
        message = b"" if own is None else own.tobytes()
        of_ranks = allgather(f"{_MESSAGE}: slices of {quantity.name}", message)
        together = np.sort(np.concatenate([np.frombuffer(each, np.int64) for each in of_ranks]))
        expected = np.sort(np.asarray(serial[quantity].indices))
        if np.array_equal(together, expected):
            found[quantity] = False
        else:
            found[quantity] = True if np.array_equal(np.unique(together), expected) else None
    return found


def _agreed(fits: Fits) -> Fits:
    """Keep the rules that fit on every rank: SAME, say, may do so on some only. Collective."""
    rules = list(Rule)
    own = np.array([[rule in fit.rules for rule in rules] for fit in fits.values()], np.float64)
    everywhere = allreduce(f"{_MESSAGE}: rules", own.reshape(-1), "min").reshape(own.shape) > 0
    nothing = np.array([fit.says_nothing for fit in fits.values()], np.float64)
    nothing_anywhere = allreduce(f"{_MESSAGE}: zeros", nothing, "min") > 0
    return {
        quantity: dataclasses.replace(
            fit,
            rules=frozenset(rule for rule, fits_all in zip(rules, row, strict=True) if fits_all),
            says_nothing=bool(is_zero),
        )
        for (quantity, fit), row, is_zero in zip(
            fits.items(), everywhere, nothing_anywhere, strict=True
        )
    }
