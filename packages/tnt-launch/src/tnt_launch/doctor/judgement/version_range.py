"""Whether a version is one of those that a package asks for."""

from __future__ import annotations

import operator
import re

_COMPARISONS = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
_CLAUSE = re.compile(r"\s*(>=|<=|==|!=|>|<)\s*([\d.]+)\s*")


def is_allowed(version: str, required: str) -> bool:
    """Return whether a version is in a range such as `>=3.8,<4`; other forms allow all. Pure."""
    clauses = map(_CLAUSE.fullmatch, required.split(",") if required.strip() else ())
    own = _numbers(version)
    for clause in clauses:
        if clause is None:
            continue
        bound = _numbers(clause[2])
        size = max(len(own), len(bound))
        if not _COMPARISONS[clause[1]](_padded(own, size), _padded(bound, size)):
            return False
    return True


def _numbers(version: str) -> list[int]:
    """Return the numbers of a release; what marks a candidate or a build of it is left out."""
    found = re.match(r"\d+(\.\d+)*", version)
    return [int(word) for word in found[0].split(".")] if found else []


def _padded(numbers: list[int], size: int) -> list[int]:
    return numbers + [0] * (size - len(numbers))
