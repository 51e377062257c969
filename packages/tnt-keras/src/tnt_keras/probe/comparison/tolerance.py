"""How far two correct computations of one value can be apart.

Two orders of summation differ by a multiple of the unit roundoff, measured in the largest entry of
the value; how much more a model amplifies is seen by running the serial step with permuted rows.
With a safety factor K, the coarsest unit roundoff eps that computes, the largest entry `scale` of
the value, and the largest entry G of all gradients,

    tolerance = K * max(min(noise, 0.01 * scale / K), eps * scale, 0.1 * eps * G).

The last term is for gradients that are zero but for rounding (the key bias of an attention). A
variable is rounded after the step: with the largest entry a of its new value, eps * min(scale, a)
and 2**-23 * a stand for the last two terms. (A smallest value that begins with 1e9 moves by 1e9,
and is exact to the rounding of what it has become.) If it was no larger than 128 before the step, a
is not below that: it may be a sum that has just become zero. The noise is bounded by a hundredth of
the value, so that a step which depends on the order of its rows cannot excuse itself.

A step that is proved again in a later epoch may compute next to nothing by then: the gradients of
a network that has learned its samples are differences of nearly equal numbers, and rounding is most
of them, and of its loss. So `scale`, min(scale, a) and G are not below those of the first proof.

Samples with made-up values may be divided by nearly zero, so that a sum is what is left of much
larger numbers: their noise is bounded by a twentieth of the value, and measured with weights that
are moved by a unit roundoff, too, unless all layers compute in float64.

Noise is measured only where values are farther apart than without any.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from tnt_keras.probe.runs.observation import Kind, Observation, Observed, Quantity

_DIFFERENCE_ROUNDOFF = 2.0**-23
_COMBINED_ROUNDOFF = 2.0**-50  # moves are combined in float64
_LARGEST_SUM = 128.0  # that may vanish; what begins with more is often a bound, such as 1e9
_LARGEST_NOISE = 0.01
_SMALL_GRADIENTS = 0.1
_LARGEST_NOISE_OF_MADE_UP_VALUES = 0.05


@dataclasses.dataclass(frozen=True)
class Precision:
    """Of the floating-point type that computes.

    Attributes:
        roundoff: Its eps.
        safety: K.
    """

    roundoff: float
    safety: float


_PRECISIONS = {
    "float64": Precision(2.0**-23, 200.0),  # data and metrics are float32 in any case
    "float32": Precision(2.0**-23, 200.0),
    "float16": Precision(2.0**-10, 15.0),
    "bfloat16": Precision(2.0**-8, 15.0),
    "float8": Precision(2.0**-4, 4.0),
}


def coarsest(dtypes: set[str]) -> Precision:
    """Return the precision of the coarsest of some floating-point types. Pure.

    Args:
        dtypes: Names such as "float32"; others than those that are known do not count.
    """
    known = [_PRECISIONS[dtype] for dtype in dtypes if dtype in _PRECISIONS]
    return max(known, key=lambda each: each.roundoff, default=_PRECISIONS["float32"])


def scale_of_rounding(quantity: Quantity, observed: Observed) -> float:
    """Return the entry by which the rounding of a value is measured: `scale` or a. Pure.

    Args:
        quantity: Names the value.
        observed: Its serial value.
    """
    if quantity.kind not in (Kind.VARIABLE, Kind.METRIC):
        return observed.scale
    return min(observed.scale, _magnitude(observed))


def _magnitude(observed: Observed) -> float:
    former = observed.former_magnitude
    return max(observed.magnitude, former if former <= _LARGEST_SUM else 0.0)


class Tolerances:
    """The tolerances of the values of one step.

    Args:
        serial: What the serial step gave.
        permuted: What it gave with permuted rows; None if that is not known.
        precision: Of the coarsest type that computes.
        former_scales: `scale_of_rounding` of values when the step was first proved.
        are_made_up: Whether some samples have values that are not those of the data.
    """

    def __init__(
        self,
        serial: Observation,
        permuted: Observation | None,
        precision: Precision,
        former_scales: Mapping[Quantity, float],
        are_made_up: bool = False,
    ) -> None:
        self._precision = precision
        self._former_scales = former_scales
        self._are_made_up = are_made_up
        permuted = permuted or {}
        self._noise = {
            quantity: _distance(observed, permuted[quantity])
            for quantity, observed in serial.items()
            if quantity in permuted
        }
        self._largest_gradient = max(
            (
                self._scale(quantity, seen)
                for quantity, seen in serial.items()
                if quantity.kind is Kind.GRADIENT and not quantity.is_new_value
            ),
            default=0.0,
        )

    def of(self, quantity: Quantity, observed: Observed) -> float:
        """Return by how much a correct value may differ from the serial one. Pure.

        Args:
            quantity: Names the value.
            observed: Its serial value.
        """
        k, scale = self._precision.safety, self._scale(quantity, observed)
        largest = _LARGEST_NOISE_OF_MADE_UP_VALUES if self._are_made_up else _LARGEST_NOISE
        noise = min(self._noise.get(quantity, 0.0), largest * scale / k)
        return k * max(noise, self._rounding(quantity, observed))

    def depends_on_order(self, quantity: Quantity, observed: Observed) -> bool:
        """Return whether permuting the rows changes the serial value itself, as of the data. Pure.

        Args:
            quantity: Names the value.
            observed: Its serial value.
        """
        bound = max(
            _LARGEST_NOISE * self._scale(quantity, observed),
            self._precision.safety * self._rounding(quantity, observed),
        )
        return not self._are_made_up and self._noise.get(quantity, 0.0) > bound

    def _scale(self, quantity: Quantity, observed: Observed) -> float:
        return max(observed.scale, self._former_scales.get(quantity, 0.0))

    def _rounding(self, quantity: Quantity, observed: Observed) -> float:
        roundoff = self._precision.roundoff
        former = self._former_scales.get(quantity, 0.0)
        scale, floor = max(scale_of_rounding(quantity, observed), former), 0.0
        if quantity.kind in (Kind.VARIABLE, Kind.METRIC):
            combined = _COMBINED_ROUNDOFF * observed.former_magnitude / self._precision.safety
            floor = max(_DIFFERENCE_ROUNDOFF * _magnitude(observed), combined)
        elif quantity.kind is Kind.GRADIENT and not quantity.is_new_value:
            floor = _SMALL_GRADIENTS * roundoff * self._largest_gradient
        return max(roundoff * scale, floor)


def _distance(one: Observed, other: Observed) -> float:
    if one.entries.shape != other.entries.shape:
        return np.inf
    finite = np.isfinite(one.entries) & np.isfinite(other.entries)
    difference = np.subtract(one.entries, other.entries, where=finite, out=np.zeros(finite.shape))
    return float(np.abs(difference).max(initial=0.0))
