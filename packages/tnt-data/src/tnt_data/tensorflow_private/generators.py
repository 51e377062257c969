"""Looks at the Python code behind `from_generator`: does it draw random numbers of its own?"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

_DRAWING = frozenset({"random", "shuffle", "permutation", "urandom", "secrets", "uuid4"})
_SEEDING = frozenset({"seed", "default_rng", "RandomState", "Random", "SeedSequence", "PCG64"})


def find_generator(step: tf.data.Dataset) -> Callable[..., Any] | None:
    """The user's function behind a dataset that `from_generator` made; None if not found. Local.

    Args:
        step: The `flat_map` that such a dataset consists of.
    """
    for outer in _held_by(step._map_func._func):
        for state in _held_by(outer):
            generator: Callable[..., Any] | None = getattr(state, "_generator", None)
            if callable(generator):
                return generator
    return None


def draws_random_numbers(function: Callable[..., Any]) -> bool:
    """Whether the code of a function names random numbers, and nothing that seeds them. Local.

    Only its own code is read, and that of functions defined in it, not what it calls.
    """
    while isinstance(function, functools.partial):
        function = function.func
    if not hasattr(function, "__code__") and callable(function):
        function = type(function).__call__  # an object that can be called like a function
    code = getattr(function, "__code__", None)
    names = {name for one in _nested_codes(code) for name in one.co_names} if code else set()
    return bool(names & _DRAWING) and not names & _SEEDING


def _held_by(function: Any) -> Iterator[Any]:
    for cell in getattr(function, "__closure__", None) or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not yet filled
            continue


def _nested_codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _nested_codes(constant)
