"""How each run compares to the first one, and why where it should not differ. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tnt_launch.verify.causes import (
    NO_NUMBERS,
    Cause,
    cause_of_moved,
    cause_of_repeat,
    cause_outside,
    likely_cause,
)
from tnt_launch.verify.comparison import Difference, first_difference, first_other_step
from tnt_launch.verify.hash_file import Record
from tnt_launch.verify.within_serial import Deviation, deviations, deviations_of_moving, largest

_SAME_AS_REPEAT = Cause(
    "that by which runs 1 and 2 differ", "Begin with these: nothing else can be told before."
)


@dataclass(frozen=True)
class Verdict:
    """What a run is compared to the first one."""

    difference: Difference | None = None  # of bits, or of steps
    deviations: tuple[Deviation, ...] = ()  # from the serial run, where bits are not asked for
    cause: Cause | None = None  # `None` if all is well


def judge_bits(records: Sequence[Record]) -> list[Verdict]:
    """Compare all runs with the first one bit by bit; the second one is on as many ranks."""
    first, again = records[:2]
    repeat = _repeat(first, again)
    sizes = [record.size for record in records]
    verdicts = [Verdict(), repeat]
    for record in records[2:]:
        difference = first_difference(first, record)
        if difference is None:
            verdicts.append(Verdict())
        elif repeat.cause is not None:
            verdicts.append(Verdict(difference, cause=_SAME_AS_REPEAT))
        else:
            cause = likely_cause(first, record, difference, sizes)
            verdicts.append(Verdict(difference, cause=cause))
    return verdicts


def _repeat(first: Record, again: Record) -> Verdict:
    difference = first_difference(first, again)
    if difference is None:
        return Verdict()
    return Verdict(difference, cause=cause_of_repeat(first, again, difference))


def judge_rounding(records: Sequence[Record]) -> list[Verdict]:
    """Compare all runs with the first, serial one; the second one had its weights moved."""
    serial, moved = records[:2]
    others = [_within(serial, moved, record) for record in records[2:]]
    return [Verdict(), _moved(serial, moved), *others]


def _moved(serial: Record, moved: Record) -> Verdict:
    """Refuse a measurement of rounding that is none, as of a script that draws other numbers."""
    steps = first_other_step(serial, moved)
    if steps is not None:
        return Verdict(steps, cause=cause_outside(serial, moved, steps))
    found = tuple(deviations_of_moving(serial, moved))
    if serial.header.get("seeded", True) and largest(found) <= 1:
        return Verdict()
    return Verdict(deviations=found, cause=cause_of_moved(serial, moved))


def _within(serial: Record, moved: Record, record: Record) -> Verdict:
    steps = first_other_step(serial, record)
    if steps is not None:
        return Verdict(steps, cause=cause_outside(serial, record, steps))
    found = tuple(deviations(serial, moved, record))
    if not found:
        return Verdict(cause=NO_NUMBERS)
    if largest(found) <= 1:
        return Verdict(deviations=found)
    difference = first_difference(serial, record)
    assert difference is not None, "values differ, and hashes do not"
    return Verdict(deviations=found, cause=cause_outside(serial, record, difference))
