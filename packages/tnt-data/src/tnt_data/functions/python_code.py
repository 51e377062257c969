"""Find out whether Python code that makes samples draws random numbers of its own."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Iterator
from typing import Any

_NAMES_OF_DRAWS = frozenset({"random", "shuffle", "permutation", "urandom", "secrets", "uuid4"})
_NAMES_OF_SEEDS = frozenset(
    {"seed", "default_rng", "RandomState", "Random", "SeedSequence", "PCG64"}
)
_NOT_READ = frozenset({"tensorflow", "keras", "numpy"})  # their functions draw in many ways


def draws_random_numbers(*functions: Any) -> bool:
    """Return whether code names random numbers, and nothing that seeds them. Local.

    The code of functions is read, too, that it defines, or calls by a name of its module or of the
    function around it; what it seeds is seeded for those.

    Args:
        functions: Functions, objects that can be called like one, or running generators, which
            belong together: what one of them seeds is seeded for all.
    """
    return _draws([_as_function(each) for each in functions], set())


def _draws(functions: list[Any], seen: set[types.CodeType]) -> bool:
    codes = {code: function for function in functions if (code := _code_of(function)) is not None}
    names = {
        code: {name for each in _nested_codes(code) for name in each.co_names} for code in codes
    }
    of_all = set().union(*names.values())
    if of_all & _NAMES_OF_SEEDS:
        return False
    seen |= codes.keys()
    return bool(of_all & _NAMES_OF_DRAWS) or any(
        _draws([called], seen)
        for code, function in codes.items()
        for called in _called(function, names[code])
        if _code_of(called) not in seen
    )


def _as_function(function: Any) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function) if callable(function) else function
    if isinstance(function, types.GeneratorType) or hasattr(function, "__code__"):
        return function
    return type(function).__call__ if callable(function) else None  # called like a function


def _code_of(function: Any) -> types.CodeType | None:
    if isinstance(function, types.GeneratorType):
        return function.gi_code
    code: types.CodeType | None = getattr(function, "__code__", None)
    return code


def _nested_codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _nested_codes(constant)


def _called(function: Any, names: set[str]) -> list[Any]:
    """Return the functions of Python that code may call by these names, or by a closure."""
    if isinstance(function, types.GeneratorType):
        if function.gi_frame is None:
            return []
        known = {**function.gi_frame.f_globals, **function.gi_frame.f_locals}
        names = names | set(function.gi_code.co_freevars)
    else:
        known = {**getattr(function, "__globals__", {}), **_closure_of(function)}
        names = names | set(_closure_of(function))
    found = [known[name] for name in sorted(names) if name in known]
    return [
        _as_function(each)
        for each in found
        if isinstance(each, (types.FunctionType, functools.partial))
        and str(getattr(each, "__module__", "")).split(".")[0] not in _NOT_READ
    ]


def _closure_of(function: Any) -> dict[str, Any]:
    code = getattr(function, "__code__", None)
    cells = getattr(function, "__closure__", None) or ()
    held = {}
    for name, cell in zip(code.co_freevars if code else (), cells, strict=False):
        try:
            held[name] = cell.cell_contents
        except ValueError:  # not yet filled
            continue
    return held
