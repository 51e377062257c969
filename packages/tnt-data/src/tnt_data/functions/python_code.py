"""Find out whether Python code that makes samples draws random numbers of its own."""

from __future__ import annotations

import builtins
import functools
import inspect
import random
import re
import sys
import sysconfig
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

_NAMES_OF_DRAWS = frozenset(
    {"random", "shuffle", "permutation", "urandom", "secrets", "uuid4"}
    | {"sample", "rvs", "rand", "randn"}  # of pandas, SciPy and torch
)
_NAMES_OF_SEEDS = frozenset(
    {"seed", "default_rng", "RandomState", "Random", "SeedSequence", "PCG64", "random_state"}
)
_NOT_READ = frozenset({"tensorflow", "keras", "numpy"})  # their functions draw in many ways
_OF_NUMPY = getattr(np.random.normal, "__self__", None)  # the generator that all code shares
_IN_LIBRARIES = re.compile(
    r"site-packages|dist-packages|^" + re.escape(sysconfig.get_path("stdlib"))
)
_ENTROPY_BITS = 64  # at least, of what NumPy takes if it is given no seed; it takes 128


def draws_random_numbers(*functions: Any) -> bool:
    """Return whether code draws random numbers, and nothing seeds them. Local.

    It does if it names them, and nothing that seeds. So it does if it knows a generator of NumPy
    that was made without a seed, or one of Python, which does not tell of its seed. The code of
    functions is read, too, that it defines, or calls by a name of its module, of the function
    around it, of an object or of another module of the user's; what it seeds is seeded for those.

    Args:
        functions: Functions, objects that can be called like one, or running generators, which
            belong together: what one of them seeds is seeded for all.
    """
    return _draws([_as_function(each) for each in functions], set())


def _draws(functions: list[Any], seen: set[types.CodeType]) -> bool:
    codes = {code: function for function in functions if (code := _code_of(function)) is not None}
    names = {code: set(_names_in(code)) for code in codes}
    seen |= codes.keys()
    known = [value for code, each in codes.items() for value in _known_to(each, names[code])]
    generators = [getattr(value, "__self__", value) for value in known]
    if any(map(_was_not_seeded, generators)):
        return True
    of_all = set().union(*names.values())
    if of_all & _NAMES_OF_SEEDS:
        return False
    called = [_as_function(value) for value in known if _is_read(value)]
    return (
        bool(of_all & _NAMES_OF_DRAWS)
        or any(each is _OF_NUMPY or isinstance(each, random.Random) for each in generators)
        or any(_draws([each], seen) for each in called if _code_of(each) not in seen)
    )


def _was_not_seeded(generator: Any) -> bool:
    """Return whether something is a generator of NumPy, not the common one, without a seed."""
    kinds = (np.random.Generator, np.random.RandomState)
    if not isinstance(generator, kinds) or generator is _OF_NUMPY:
        return False
    if isinstance(generator, np.random.Generator):
        bits: Any = generator.bit_generator
    else:
        bits = generator.__reduce__()[1][0]  # as it is pickled
    entropy = getattr(getattr(bits, "seed_seq", None), "entropy", None)
    return isinstance(entropy, int) and entropy.bit_length() > _ENTROPY_BITS


def _is_read(value: Any) -> bool:
    kinds = (types.FunctionType, types.MethodType, functools.partial, types.GeneratorType)
    package = str(getattr(value, "__module__", "")).split(".")[0]
    return isinstance(value, kinds) and package not in _NOT_READ


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


def _names_in(code: types.CodeType) -> Iterator[str]:
    """Yield the names that code uses, and those of keywords that seed."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names_in(constant)
        elif isinstance(constant, tuple) and "random_state" in constant:
            yield "random_state"


def _known_to(function: Any, names: set[str]) -> Iterator[Any]:
    """Yield what code may reach by these names, or by a closure, in an order of its own."""
    if not isinstance(function, types.GeneratorType):
        known = {**getattr(function, "__globals__", {}), **_closure_of(function)}
        names = names | set(_closure_of(function))
        known["self"] = getattr(function, "__self__", None)
    elif function.gi_frame is None:
        return
    else:
        known = {**function.gi_frame.f_globals, **function.gi_frame.f_locals}
        names = names | set(function.gi_frame.f_locals)
    for name in sorted({*names, "self"} & known.keys()):
        yield known[name]
        yield from _attributes_of(known[name], names)


def _attributes_of(owner: Any, names: set[str]) -> Iterator[Any]:
    """Yield attributes, by these names, of an object or a module of the user's."""
    module = (
        owner if isinstance(owner, types.ModuleType) else sys.modules.get(type(owner).__module__)
    )
    file = getattr(module, "__file__", None) or ""
    if (
        isinstance(module, types.ModuleType)
        and not _IN_LIBRARIES.search(file)
        and module is not builtins
    ):
        held = {*getattr(owner, "__dict__", ()), *dir(type(owner))}
        for name in sorted(names & held):
            if not isinstance(inspect.getattr_static(owner, name, None), property):
                yield getattr(owner, name, None)


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
