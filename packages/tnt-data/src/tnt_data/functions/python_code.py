"""Find out whether Python code that makes samples draws random numbers of its own."""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator
from typing import Any

_NAMES_OF_DRAWS = frozenset({"random", "shuffle", "permutation", "urandom", "secrets", "uuid4"})
_NAMES_OF_SEEDS = frozenset(
    {"seed", "default_rng", "RandomState", "Random", "SeedSequence", "PCG64"}
)


def draws_random_numbers(*functions: Any) -> bool:
    """Return whether code names random numbers, and nothing that seeds them. Local.

    Only the code itself is read, and that of functions defined in it, not what it calls.

    Args:
        functions: Functions, objects that can be called like one, or running generators, which
            belong together: what one of them seeds is seeded for all.
    """
    names: set[str] = set()
    for function in functions:
        for code in _nested_codes(_code_of(function)):
            names.update(code.co_names)
    return bool(names & _NAMES_OF_DRAWS) and not names & _NAMES_OF_SEEDS


def _code_of(function: Any) -> types.CodeType | None:
    while isinstance(function, functools.partial):
        function = function.func
    if isinstance(function, types.GeneratorType):
        return function.gi_code
    if not hasattr(function, "__code__") and callable(function):
        function = type(function).__call__  # an object that can be called like a function
    code: types.CodeType | None = getattr(function, "__code__", None)
    return code


def _nested_codes(code: types.CodeType | None) -> Iterator[types.CodeType]:
    if code is None:
        return
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _nested_codes(constant)
