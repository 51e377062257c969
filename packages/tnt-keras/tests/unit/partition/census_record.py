"""What the census has found: which operation types each public name emits."""

from __future__ import annotations

import collections
import inspect
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any

Trace = Callable[[], set[str]]


class Census:
    """Operation types by the name of what emits them.

    Attributes:
        types: Of each name, what its traces found.
        errors: The last error of each name, whether or not another of its traces succeeded.
    """

    def __init__(self) -> None:
        self.types: dict[str, set[str]] = {}
        self.errors: dict[str, str] = {}

    def add(self, name: str, traces: Iterable[Trace], limit: int | None = None) -> bool:
        """Trace until `limit` of the traces succeed; whether one did."""
        successes = 0
        for trace in traces:
            if successes == limit:
                break
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found = trace()
            except Exception as error:  # any: an example that does not fit fails in its own way
                self.errors[name] = f"{type(error).__name__}: {error}"
            else:
                self.types.setdefault(name, set()).update(found)
                successes += 1
        return successes > 0

    def untraced(self) -> dict[str, str]:
        """Names of which no trace succeeded, with an error."""
        return {name: error for name, error in self.errors.items() if name not in self.types}

    def users(self) -> dict[str, set[str]]:
        """Operation type -> names that emit it."""
        users: dict[str, set[str]] = collections.defaultdict(set)
        for name, types in self.types.items():
            for operation_type in types:
                users[operation_type].add(name)
        return dict(users)


def public(module: ModuleType, is_wanted: Callable[[Any], bool]) -> Iterator[tuple[str, Any]]:
    """Public objects of a module, each once, by the first of its names."""
    seen = set()
    for name in sorted(dir(module)):
        value = getattr(module, name)
        if not name.startswith("_") and is_wanted(value) and id(value) not in seen:
            seen.add(id(value))
            yield name, value


def is_subclass(base: type) -> Callable[[Any], bool]:
    return lambda value: inspect.isclass(value) and issubclass(value, base) and value is not base


def is_call(value: Any) -> bool:
    """Whether a value is a function, and not one that finds or saves objects of its module."""
    return inspect.isfunction(value) and value.__name__ not in ("get", "serialize", "deserialize")


def options(
    function: Callable[..., Any], values: Mapping[str, tuple[Any, ...]]
) -> list[dict[str, Any]]:
    """Each of these values for an optional argument of the function, one at a time."""
    parameters = inspect.signature(function).parameters
    passes_on = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    names = [name for name, one in parameters.items() if one.default is not one.empty]
    names += ["dtype"] if passes_on and "dtype" not in names else []
    return [{name: value} for name in names for value in values.get(name, ())]
