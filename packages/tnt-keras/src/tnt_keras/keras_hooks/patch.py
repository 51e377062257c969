"""Change objects and classes of Keras, and act when it is imported; this needs no Keras itself.

`add_mixin` gives an existing object more behaviour by exchanging its class in place. The object
stays the same: every reference to it sees the new behaviour, and its variables, attributes and
`isinstance` relations are untouched. The new class has names and module of the old one, so that
messages do not show the exchange.

Nor do files: `instance.__class__` is the plain class still, while `type(instance)` is the new one.
Keras asks objects for their `__class__` when it describes, saves or clones them. So what it writes
is plain wherever the object sits: alone, as a layer of another model, or as an attribute of one.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import inspect
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

_Method = TypeVar("_Method", bound=Callable[..., Any])
_ABSENT = object()

MixinBase: Any = object
"""Base of mixins, for type checkers: `super()` finds methods of the class beside the mixin."""


def add_mixin(instance: Any, mixin: type, below: type | None = None) -> None:
    """Put `mixin` in front of the classes of `instance`; nothing happens if it is there. Local.

    Methods that it names in `_tnt_signatures_of_others` show the signatures and docstrings of those
    that they replace. `below` derives from a class of the instance; its methods come just before
    those of that class, hence behind those of the classes that a user has derived from it.
    """
    if not isinstance(instance, mixin):
        _set_class(instance, _with_mixin(type(instance), mixin, below))  # type: ignore[arg-type]


def plain_class(cls: type) -> type:
    """Return the class that `add_mixin` replaced, or `cls` itself. Local."""
    plain = cls.__dict__.get("_tnt_plain_class", cls)
    assert isinstance(plain, type)
    return plain


@contextlib.contextmanager
def without_mixins(instance: Any) -> Iterator[None]:
    """Restore an object's own class in a with-block: it does what it did without. Local."""
    cls = type(instance)
    _set_class(instance, plain_class(cls))
    try:
        yield
    finally:
        _set_class(instance, cls)


# Past the property of that name which the new classes have.
_set_class: Callable[[Any, type], None] = object.__dict__["__class__"].__set__


@functools.cache  # one class for each combination, so that two models of one class stay of one
def _with_mixin(cls: type, mixin: type, below: type | None) -> type:
    plain = plain_class(cls)
    shown = {
        name: _shown_as(getattr(cls, name), getattr(mixin, name))
        for name in getattr(mixin, "_tnt_signatures_of_others", ())
    }
    namespace = {
        **{name: getattr(cls, name) for name in ("__module__", "__qualname__", "__doc__")},
        "__class__": property(lambda _: plain),
        "_tnt_plain_class": plain,
        **shown,
    }
    if below is None:
        bases: tuple[type, ...] = (mixin, cls)
    elif issubclass(below, cls):  # the instance is of the class itself
        bases = (mixin, below)
    else:
        bases = (mixin, cls, below)
    return type(cls.__name__, bases, namespace)


def _shown_as(shown: Callable[..., Any], method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that does what `method` does and is described like `shown`."""
    return functools.wraps(shown)(lambda self, *args, **kwargs: method(self, *args, **kwargs))


def signature_of(of_keras: Callable[..., Any], **own: Any) -> Callable[[_Method], _Method]:
    """Show a method with the signature of one of Keras, and keywords of its `own`. Local."""
    signature = inspect.signature(of_keras)
    parameters = list(signature.parameters.values())
    has_keywords = bool(parameters) and parameters[-1].kind is inspect.Parameter.VAR_KEYWORD
    place = len(parameters) - has_keywords
    parameters[place:place] = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
        for name, default in own.items()
    ]

    def decorate(method: _Method) -> _Method:
        method.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return method

    return decorate


@contextlib.contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Give `owner` the attribute `name` inside a with-block and restore what it had. Local.

    Functions and properties are replaced for this thread alone: another one may train a plain model
    meanwhile. For a class this changes all its instances; for an instance it hides the class'
    attribute, past its `__setattr__`, so that Keras does not track the value.
    """
    before = owner.__dict__.get(name, _ABSENT)
    kind = type if isinstance(owner, type) else object
    kind.__setattr__(owner, name, _in_this_thread(value, getattr(owner, name, None)))
    try:
        yield
    finally:
        if before is _ABSENT:
            kind.__delattr__(owner, name)
        else:
            kind.__setattr__(owner, name, before)


def _in_this_thread(value: Any, plain: Any) -> Any:
    """Return what is `value` in this thread and `plain` in others, if both are functions."""
    thread = threading.get_ident()

    def current() -> Any:
        return value if threading.get_ident() == thread else plain

    if isinstance(value, property):
        return property(lambda owner: current().__get__(owner))
    if isinstance(value, type) or not (callable(value) and callable(plain)):
        return value
    return functools.wraps(value)(lambda *args, **kwargs: current()(*args, **kwargs))


def when_imported(name: str, action: Callable[[], None]) -> None:
    """Call `action` when a module has been imported: now, or once it is. Local."""
    if name in sys.modules:
        action()
        return

    def find_spec(fullname: str, path: Any = None, target: Any = None) -> Any:
        """Find the one module as others do, once, and act after it was executed."""
        if fullname != name:
            return None
        sys.meta_path.remove(finder)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: types.ModuleType) -> None:
                execute(module)
                action()

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec

    finder: Any = types.SimpleNamespace(find_spec=find_spec)
    sys.meta_path.insert(0, finder)
