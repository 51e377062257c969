"""Act when a module is imported; replace an attribute for a with-block, as one thread sees it."""

from __future__ import annotations

import contextlib
import functools
import importlib.abc
import importlib.util
import sys
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

_ABSENT = object()


def when_imported(name: str, action: Callable[[], None]) -> None:
    """Call `action` when a module has been imported: now, or once it is. Local."""
    if name in sys.modules:
        action()
    else:
        sys.meta_path.insert(0, _Finder(name, action))


class _Finder(importlib.abc.MetaPathFinder):
    """Finds one module as the others do, once, and acts after it was executed."""

    def __init__(self, name: str, action: Callable[[], None]) -> None:
        self._name, self._action = name, action

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> Any:
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            plain = spec.loader.exec_module

            def exec_module(module: types.ModuleType) -> None:
                plain(module)
                self._action()

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


@contextlib.contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Give `owner` the attribute `name` inside a with-block and restore what it had. Local.

    Functions and properties are replaced for this thread alone: another one may train a plain model
    meanwhile. For a class this changes all its instances; for an instance it hides the class'
    attribute, past its `__setattr__`, so that Keras does not track the value.
    """
    before = owner.__dict__.get(name, _ABSENT)
    set_attribute, delete_attribute = (
        (type.__setattr__, type.__delattr__)
        if isinstance(owner, type)
        else (object.__setattr__, object.__delattr__)
    )
    set_attribute(owner, name, _in_this_thread(value, getattr(owner, name, None)))
    try:
        yield
    finally:
        if before is _ABSENT:
            delete_attribute(owner, name)
        else:
            set_attribute(owner, name, before)


def _in_this_thread(value: Any, plain: Any) -> Any:
    """Return what is `value` in this thread and `plain` in others, if both are functions."""
    thread = threading.get_ident()
    if isinstance(value, property):
        return property(lambda owner: _of_thread(value, plain, thread).__get__(owner))
    if isinstance(value, type) or not (callable(value) and callable(plain)):
        return value

    @functools.wraps(value)
    def call(*args: Any, **kwargs: Any) -> Any:
        return _of_thread(value, plain, thread)(*args, **kwargs)

    return call


def _of_thread(value: Any, plain: Any, thread: int) -> Any:
    return value if threading.get_ident() == thread else plain
