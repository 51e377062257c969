"""Few combinations of factors in which every pair that may interact is found."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Row = dict[str, Any]


def covering_rows(
    factors: Mapping[str, Sequence[Any]],
    together: Sequence[tuple[str, ...]],
    is_possible: Callable[[Row], bool],
) -> list[Row]:
    """Return rows in which all possible combinations of some factors occur; always the same ones.

    Greedy: each row begins with a combination that is still missing. The other factors, in their
    order, get the value that brings most missing combinations, of these the one used least.

    Args:
        factors: Values by name. What restricts the others most comes first.
        together: Names of factors of which each combination of values shall occur.
        is_possible: Whether there may be a row with these values; others may be missing.
    """
    missing = {
        tuple(zip(names, values, strict=True)): None
        for names in together
        for values in itertools.product(*(factors[name] for name in names))
        if is_possible(dict(zip(names, values, strict=True)))
    }
    used: Counter[tuple[str, Any]] = Counter()
    rows: list[Row] = []
    while missing:
        row: Row = dict(next(iter(missing)))
        for name in factors:
            if name not in row:
                row[name] = _best_value(name, factors[name], row, missing, used, is_possible)
        for combination in [each for each in missing if _is_in(each, row)]:
            del missing[combination]
        used.update(row.items())
        rows.append({name: row[name] for name in factors})
    return rows


def _best_value(
    name: str,
    values: Sequence[Any],
    row: Row,
    missing: Mapping[tuple[tuple[str, Any], ...], None],
    used: Counter[tuple[str, Any]],
    is_possible: Callable[[Row], bool],
) -> Any:
    def worth(value: Any) -> tuple[int, int]:
        with_value = {**row, name: value}
        return sum(_is_in(each, with_value) for each in missing), -used[name, value]

    return max((value for value in values if is_possible({**row, name: value})), key=worth)


def _is_in(combination: tuple[tuple[str, Any], ...], row: Row) -> bool:
    return all(name in row and row[name] == value for name, value in combination)
