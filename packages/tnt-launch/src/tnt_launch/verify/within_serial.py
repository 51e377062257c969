"""Whether a run differs from the serial one by more than rounding does. Pure.

Rounding grows from step to step, and in each script otherwise. So it is measured: of the runs x
(serial), y (serial, with all weights moved by their last bit before the first step) and z (the run
to be judged), the result r (a loss or a metric) of step s may differ by

    |z[r, s] - x[r, s]| <= max(10 * max |y[r, t] - x[r, t]|, e * max |x[r, t]|)

with both inner maxima over all steps t <= s that have this result. The unit of rounding e is 2e-5
for float32, 1e-2 for float16 and 6e-2 for bfloat16. At the end mean m and root mean square q of
each variable v are compared:

    |m_z[v] - m_x[v]| <= max(10 * |m_y[v] - m_x[v]|, e * q_x[v])

and q likewise. The ratio of the two sides is at most 1 where all is well.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tnt_launch.verify.hash_file import Record, Step

_GROWTH = 10.0
_UNITS = {"bfloat16": 6e-2, "float16": 1e-2}  # by what the name of a type has
_UNIT_OF_FLOAT32 = 2e-5


@dataclass(frozen=True)
class Deviation:
    """How far a run is from the serial one in one number, in units of what it may be."""

    ratio: float
    where: str  # in words
    serial: float
    other: float


def unit_of(compute_dtype: str) -> float:
    """Return the unit of rounding of a type that layers compute in, such as `mixed_float16`."""
    return next((unit for name, unit in _UNITS.items() if name in compute_dtype), _UNIT_OF_FLOAT32)


def deviations(serial: Record, moved: Record, other: Record) -> Iterator[Deviation]:
    """Yield how far each number of a run is from the serial one, in the order of steps.

    Steps that one of the three has not are left out.
    """
    unit = unit_of(str(serial.header.get("compute_dtype", "")))
    largest: defaultdict[tuple[str, str, str], float] = defaultdict(float)
    growth: defaultdict[tuple[str, str, str], float] = defaultdict(float)
    for number, step in serial.steps.items():
        for name, result in step.results.items():
            values = [_value(run.steps.get(number), name) for run in (moved, other)]
            if result.value is None or None in values:
                continue
            by_moving, there = (float(value) for value in values if value is not None)
            here, key = result.value, (step.kind, step.model, name)
            growth[key] = max(growth[key], _distance(by_moving, here))
            largest[key] = max(largest[key], abs(here) if math.isfinite(here) else 0.0)
            allowed = max(_GROWTH * growth[key], unit * largest[key])
            where = f"step {number}, {step.kind} of {step.model!r}: {name}"
            yield Deviation(_ratio(_distance(there, here), allowed), where, here, there)
    yield from _deviations_at_end(serial, moved, other, unit)


def _deviations_at_end(
    serial: Record, moved: Record, other: Record, unit: float
) -> Iterator[Deviation]:
    of_moved, of_other = moved.norms or {}, other.norms or {}
    for name, norms in (serial.norms or {}).items():
        if name not in of_moved or name not in of_other:
            continue
        names = ("mean", "root mean square")
        for what, here, by_moving, there in zip(
            names, norms, of_moved[name], of_other[name], strict=True
        ):
            allowed = max(_GROWTH * _distance(by_moving, here), unit * abs(norms[1]))
            where = f"at the end: {what} of {name}"
            yield Deviation(_ratio(_distance(there, here), allowed), where, here, there)


def deviations_of_moving(serial: Record, moved: Record) -> Iterator[Deviation]:
    """Yield by how much more than one unit of rounding the first results of two serial runs differ.

    Not more can have come of last bits in one step.
    """
    begin, moved_begin = (
        replace(run, steps=dict(list(run.steps.items())[:1]), norms=None) for run in (serial, moved)
    )
    return deviations(begin, begin, moved_begin)


def largest(found: Sequence[Deviation]) -> float:
    """Return the largest ratio, 0 if nothing was compared."""
    return max((each.ratio for each in found), default=0.0)


def _value(step: Step | None, name: str) -> float | None:
    return step.results[name].value if step is not None and name in step.results else None


def _distance(one: float, two: float) -> float:
    if one == two or (math.isnan(one) and math.isnan(two)):
        return 0.0
    distance = abs(one - two)
    return math.inf if math.isnan(distance) else distance


def _ratio(distance: float, allowed: float) -> float:
    if distance == 0:
        return 0.0
    # Where moving the weights makes a number infinite, nothing can be said.
    return distance / allowed if allowed > 0 and math.isfinite(allowed) else math.inf
