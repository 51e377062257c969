"""Find objects of a class among the attributes of layers and models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def in_attributes(owner: Any, kind: type | tuple[type, ...]) -> list[Any]:
    """Return the objects of a class in attributes, each once, in the order of attributes. Local.

    They may also be within lists, tuples and dictionaries; sets differ in order between processes.
    """
    seen: set[int] = set()
    return [each for each in _flattened(vars(owner), seen) if isinstance(each, kind)]


def _flattened(value: Any, seen: set[int]) -> Iterator[Any]:
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        yield value
        return
    for each in list(value):
        yield from _flattened(each, seen)
