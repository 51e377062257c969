"""What differs between two interfaces, and which version a difference asks for."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from packaging.version import Version

_SIGNATURE = re.compile(r"((?:async |classmethod |contextmanager |staticmethod )*)(\(.*\))")


class Change(NamedTuple):
    """A difference; one that breaks is noticed by programs that use what was there."""

    name: str
    text: str
    breaks: bool


def changes(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[Change]:
    """Yield the differences between two tables of names with what they are.

    What comes or goes with a class or module is not told of by itself.
    """
    once = before.keys() ^ now.keys()
    for name in sorted({*before, *now}):
        if name.rpartition(".")[0] in once:
            continue
        if name not in now:
            yield Change(name, f"`{name}` is gone", True)
        elif name not in before:
            yield Change(name, f"`{name}` is new", False)
        elif before[name] != now[name]:
            added = new_arguments(before[name], now[name])
            if added:
                noun = "a new argument" if len(added) == 1 else "new arguments"
                words = ", ".join(f"`{each}`" for each in added)
                yield Change(name, f"`{name}` has {noun} {words}", False)
            else:
                text = f"`{name}` is now `{now[name]}`, it was `{before[name]}`"
                yield Change(name, text, True)


def new_arguments(before: str, now: str) -> list[str]:
    """Return which arguments a signature has more, none if a call of before may mean another."""
    was, is_now = _SIGNATURE.fullmatch(before), _SIGNATURE.fullmatch(now)
    if was is None or is_now is None or was[1] != is_now[1]:
        return []
    old, new = _arguments(was[2]), _arguments(is_now[2])
    (old_places, old_keywords), (new_places, new_keywords) = _defaults(old), _defaults(new)
    by_place = list(old_places.items()) == list(new_places.items())[: len(old_places)]
    more = [name for name in [*new_places, *new_keywords] if name not in old_places | old_keywords]
    is_kept = old_keywords.items() <= (new_places | new_keywords).items()
    can_be_left_out = None not in [(new_places | new_keywords)[name] for name in more]
    is_shifted = old.vararg is not None and len(new_places) > len(old_places)
    is_named = {one.arg for one in old.args} <= {one.arg for one in new.args}
    names = [[one.arg for one in (each.vararg, each.kwarg) if one] for each in (old, new)]
    more += [name for name in names[1] if name not in names[0]]
    keeps_stars = {*names[0]} <= {*names[1]}
    is_compatible = by_place and is_named and is_kept and can_be_left_out and keeps_stars
    return more if is_compatible and not is_shifted else []


def _arguments(signature: str) -> ast.arguments:
    [function] = ast.parse(f"def f{signature}: ...").body
    assert isinstance(function, ast.FunctionDef)
    return function.args


def _defaults(given: ast.arguments) -> tuple[dict[str, str | None], dict[str, str | None]]:
    """Return arguments by place and by keyword, each with its default or None."""
    places = [*given.posonlyargs, *given.args]
    without: list[ast.expr | None] = [None] * (len(places) - len(given.defaults))
    pairs = zip(places, [*without, *given.defaults], strict=True)
    keywords = zip(given.kwonlyargs, given.kw_defaults, strict=True)
    return (
        {one.arg: None if value is None else ast.unparse(value) for one, value in pairs},
        {one.arg: None if value is None else ast.unparse(value) for one, value in keywords},
    )


def asked_for(before: Version, breaks: bool) -> str:
    """Say in words which version a change asks for after one that had another interface."""
    if before.pre is not None:
        word, number = before.pre
        return f"the version to {before.base_version}{word}{number + 1}"
    return "the major version" if breaks and before.major else "the minor version"


def is_enough(before: Version, now: Version, breaks: bool) -> bool:
    """Whether a version may have a change. Nothing is promised between candidates of a release."""
    if before.pre is not None:
        return now > before
    if breaks and before.major:
        return now.major > before.major
    return now.release[:2] > before.release[:2]
