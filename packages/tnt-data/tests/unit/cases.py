"""`cases`: the values with which a test is run, some of them in the long tail alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def cases(
    names: str | tuple[str, ...], short: Iterable[Any], *, thorough: Iterable[Any], **options: Any
) -> pytest.MarkDecorator:
    """Return `pytest.mark.parametrize` with values of which some belong to the long tail.

    Args:
        names: Of the arguments, as of `parametrize`.
        short: Values of every run: a value or a tuple, or `pytest.param` if it has an `id`.
        thorough: Those of the long tail. What is also in `short` is left out.
        options: Others of `parametrize`.
    """
    values = list(short)
    several = len(names.split(",") if isinstance(names, str) else names) > 1
    of_long_tail = [_marked(value, several) for value in thorough if value not in values]
    return pytest.mark.parametrize(names, [*values, *of_long_tail], **options)


def _marked(value: Any, several: bool) -> Any:
    given = value if isinstance(value, type(pytest.param())) else None
    if given is None:
        given = pytest.param(*value) if several else pytest.param(value)
    return pytest.param(*given.values, id=given.id, marks=[*given.marks, pytest.mark.thorough])
