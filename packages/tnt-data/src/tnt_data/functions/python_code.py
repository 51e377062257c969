"""Find out whether Python code that makes samples draws random numbers of its own."""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import itertools
import random
import re
import sys
import sysconfig
import textwrap
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

_NAMES_OF_DRAWS = frozenset(
    {"random", "shuffle", "permutation", "urandom", "secrets", "uuid4"}
    | {"sample", "rvs", "rand", "randn"}  # of pandas, SciPy and torch
)
_NAMES_OF_SEEDS = frozenset(
    {"seed", "default_rng", "RandomState", "Random", "SeedSequence", "PCG64"}
)
_RANDOM_STATE = "random_state"  # by which functions are given a seed, not only called
_NOT_READ = frozenset({"tensorflow", "keras", "numpy"})  # their functions draw in many ways
_OF_NUMPY = getattr(np.random.normal, "__self__", None)  # the generator that all code shares
_IN_LIBRARIES = re.compile(
    r"site-packages|dist-packages|^" + re.escape(sysconfig.get_path("stdlib"))
)
_MOST_ITEMS = 64  # of a list that are looked at
_ENTROPY_BITS = 64  # at least, of what NumPy takes if it is given no seed; it takes 128


def draws_random_numbers(*functions: Any) -> bool:
    """Return whether code draws random numbers that nothing seeds. Local.

    It does if it names random functions and seeds nothing, or if it creates or knows a generator of
    NumPy without a seed, or one of Python, which does not tell its seed. This also reads the code
    of functions that it defines, or calls by a name of its module, of the enclosing function, of an
    object, of a list or of another module of the user; what it seeds is seeded for those.

    Args:
        functions: Functions, objects that can be called like one, or running generators, which
            belong together: what one of them seeds is seeded for all.
    """
    return _draws([_as_function(each) for each in functions], set())


def place_of(function: Any) -> str:
    """Return where a function is defined in the user's code, `"file:line"`; empty if not known."""
    code = _code_of(_as_function(function))
    if code is None or _IN_LIBRARIES.search(code.co_filename):
        return ""
    return f"{code.co_filename}:{code.co_firstlineno}"


def _draws(functions: list[Any], seen: set[types.CodeType]) -> bool:
    codes = {code: function for function in functions if (code := _code_of(function)) is not None}
    names = {code: set(_names_in(code)) for code in codes}
    seen |= codes.keys()
    known = [value for code, each in codes.items() for value in _known_to(each, names[code])]
    generators = [getattr(value, "__self__", value) for value in known]
    if any(map(_was_not_seeded, generators)):
        return True
    seeds = [is_given for code in codes for is_given in _seeds_in(code, names[code])]
    if seeds:
        return not all(seeds)
    of_all = set().union(*names.values())
    called = [_as_function(value) for value in known if _is_read(value)]
    return (
        bool(of_all & _NAMES_OF_DRAWS)
        or any(each is _OF_NUMPY or isinstance(each, random.Random) for each in generators)
        or any(_draws([each], seen) for each in called if _code_of(each) not in seen)
    )


def _seeds_in(code: types.CodeType, names: set[str]) -> Iterator[bool]:
    """Yield of each call that seeds, or makes a generator, whether it is given a seed."""
    if not names & {*_NAMES_OF_SEEDS, _RANDOM_STATE}:
        return
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(code)))
    except (OSError, TypeError, SyntaxError):  # there is none, or it is a part of an expression
        yield True
        return
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        given = [*call.args, *(keyword.value for keyword in call.keywords)]
        if name in _NAMES_OF_SEEDS:
            yield any(not _is_none(value) for value in given)
        for keyword in call.keywords:
            if keyword.arg == _RANDOM_STATE:
                yield not _is_none(keyword.value)


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


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
    if isinstance(value, kinds):
        return package not in _NOT_READ
    return callable(value) and _is_of_users(sys.modules.get(package))


def _as_function(function: Any) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function) if callable(function) else function
    if isinstance(function, types.GeneratorType) or hasattr(function, "__code__"):
        return function
    return function.__call__ if callable(function) else None  # called like a function


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
        elif isinstance(constant, tuple) and _RANDOM_STATE in constant:
            yield _RANDOM_STATE


def _known_to(function: Any, names: set[str]) -> Iterator[Any]:
    """Yield what code may reach by these names, a closure or defaults, in an order of its own."""
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
        for value in _with_items(known[name]):
            yield value
            yield from _attributes_of(value, names)


def _attributes_of(owner: Any, names: set[str]) -> Iterator[Any]:
    """Yield attributes, by these names, of an object or a module of the user's."""
    module = (
        owner if isinstance(owner, types.ModuleType) else sys.modules.get(type(owner).__module__)
    )
    if _is_of_users(module):
        held = {*getattr(owner, "__dict__", ()), *dir(type(owner))}
        for name in sorted(names & held):
            if not isinstance(inspect.getattr_static(owner, name, None), property):
                yield from _with_items(getattr(owner, name, None))


def _is_of_users(module: Any) -> bool:
    file = getattr(module, "__file__", None) or ""
    is_module = isinstance(module, types.ModuleType) and module is not builtins
    return is_module and not _IN_LIBRARIES.search(file)


def _with_items(value: Any) -> Iterator[Any]:
    """Yield a value, and the first ones that it holds if it is a list or the like."""
    yield value
    if isinstance(value, dict):
        yield from itertools.islice(value.values(), _MOST_ITEMS)
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from itertools.islice(value, _MOST_ITEMS)


def _closure_of(function: Any) -> dict[str, Any]:
    code = getattr(function, "__code__", None)
    cells = getattr(function, "__closure__", None) or ()
    held = {}
    for name, cell in zip(code.co_freevars if code else (), cells, strict=False):
        try:
            held[name] = cell.cell_contents
        except ValueError:  # not yet filled
            continue
    defaults = itertools.chain(
        getattr(function, "__defaults__", None) or (),
        (getattr(function, "__kwdefaults__", None) or {}).values(),
    )
    return {**held, **{f"default {n}": value for n, value in enumerate(defaults)}}
