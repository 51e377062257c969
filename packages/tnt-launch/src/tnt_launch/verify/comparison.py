"""Where the bits of two runs differ first. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tnt_launch.numbers import listed
from tnt_launch.verify.hash_file import Record, Step

_MOST_NAMES = 1


@dataclass(frozen=True)
class Difference:
    """The first step that two runs do not have in common."""

    number: int
    step: str  # which one it is, in words
    results: tuple[str, ...] = ()  # that differ there, in the order of the file
    variables: tuple[str, ...] = ()
    is_other_step: bool = False  # only one run has it, or it is of another kind

    @property
    def names(self) -> tuple[str, ...]:
        """What differs, results first."""
        return self.results + self.variables

    def text(self) -> str:
        """Say in which step what differs."""
        if self.is_other_step:
            return f"in step {self.number}: {self.step}"
        return f"in step {self.number}, {self.step}: {listed(self.names, _MOST_NAMES)}"


def first_difference(first: Record, other: Record) -> Difference | None:
    """Return where two runs differ first, `None` if they are identical."""
    hashes: tuple[dict[str, str], dict[str, str]] = {}, {}
    for number, one, two in _pairs(first, other):
        if one is None or two is None or not _are_alike(one, two):
            return _other_step(number, one, two)
        for known, step in zip(hashes, (one, two), strict=True):
            known.update(step.variables)
        returned = _names(one.results, two.results)
        results = [name for name in returned if _result(one, name) != _result(two, name)]
        # Those that neither step has changed are what they were: equal.
        changed = _names(one.variables, two.variables)
        variables = [name for name in changed if hashes[0].get(name) != hashes[1].get(name)]
        if results or variables:
            return Difference(number, _text(one), tuple(results), tuple(variables))
    return None


def first_other_step(first: Record, other: Record) -> Difference | None:
    """Return the first step that only one of two runs has, `None` if both took the same ones."""
    for number, one, two in _pairs(first, other):
        if one is None or two is None or not _are_alike(one, two):
            return _other_step(number, one, two)
    return None


def hash_of(record: Record) -> str:
    """Return a hash of all results of a run and of its variables at the end."""
    variables: dict[str, str] = {}
    digest = hashlib.sha256()
    for step in record.steps.values():
        variables.update(step.variables)
        results = sorted((name, result.hash) for name, result in step.results.items())
        digest.update(repr((step.number, step.kind, step.model, results)).encode())
    digest.update(repr(sorted(variables.items())).encode())
    return digest.hexdigest()[:16]


def _pairs(first: Record, other: Record) -> Iterator[tuple[int, Step | None, Step | None]]:
    """Yield the number of each step, and what it is in two runs."""
    for number in sorted({*first.steps, *other.steps}):
        yield number, first.steps.get(number), other.steps.get(number)


def _are_alike(one: Step, two: Step) -> bool:
    return (one.kind, one.model) == (two.kind, two.model)


def _other_step(number: int, one: Step | None, two: Step | None) -> Difference:
    told = f"{_text(two)}, where run 1 has {_text(one)}"
    return Difference(number, told, is_other_step=True)


def _text(step: Step | None) -> str:
    return "no step" if step is None else f"{step.kind} of {step.model!r}"


def _names(one: Iterable[str], two: Iterable[str]) -> list[str]:
    return list(dict.fromkeys([*one, *two]))


def _result(step: Step, name: str) -> str | None:
    return step.results[name].hash if name in step.results else None
