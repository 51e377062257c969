"""Give an existing object more behaviour by exchanging its class in place.

The object stays the same: every reference to it sees the new behaviour, and its variables,
attributes and `isinstance` relations are untouched. The new class has names and module of the old
one, so that messages do not show the exchange.

Nor do files: `instance.__class__` is the plain class still, while `type(instance)` is the new one.
Keras asks objects for their `__class__` when it describes, saves or clones them. So what it writes
is plain wherever the object sits: alone, as a layer of another model, or as an attribute of one.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import keras

_Method = TypeVar("_Method", bound=Callable[..., Any])

MixinBase: Any = object
"""Base of mixins, for type checkers: `super()` finds methods of the class beside the mixin."""


def add_mixin(instance: Any, mixin: type, below: type | None = None) -> None:
    """Put `mixin` in front of the classes of `instance`; nothing happens if it is there. Local.

    Methods that it names in `_tnt_signatures_of_others` show the signatures and docstrings of those
    that they replace. `below` derives from a class of the instance; its methods come just before
    those of that class, hence behind those of the classes that a user has derived from it.
    """
    if not isinstance(instance, mixin):
        _set_class(instance, _with_mixin(type(instance), mixin, below))


def plain_class(cls: type) -> type:
    """Return the class that `add_mixin` replaced, or `cls` itself. Local."""
    plain = cls.__dict__.get("_tnt_plain_class", cls)
    assert isinstance(plain, type)
    return plain


@contextlib.contextmanager
def without_mixins(*instances: Any) -> Iterator[None]:
    """Restore the objects' own classes in a with-block: they do what they did without. Local."""
    classes = [type(instance) for instance in instances]
    for instance, cls in zip(instances, classes, strict=True):
        if plain_class(cls) is not cls:
            _set_class(instance, plain_class(cls))
    try:
        yield
    finally:
        for instance, cls in zip(instances, classes, strict=True):
            if type(instance) is not cls:
                _set_class(instance, cls)


# Past the property of that name which the new classes have.
_set_class: Callable[[Any, type], None] = object.__dict__["__class__"].__set__


# One class for each combination, so that two models of one class stay of one class.
_classes: dict[tuple[type, type, type | None], type] = {}


def _with_mixin(cls: type, mixin: type, below: type | None) -> type:
    key = (cls, mixin, below)
    if key not in _classes:
        _classes[key] = _make_class(cls, mixin, below)
    return _classes[key]


def _make_class(cls: type, mixin: type, below: type | None) -> type:
    plain = plain_class(cls)
    namespace = {
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
        "__class__": property(lambda _: plain),
        "_tnt_plain_class": plain,
        **{
            name: _shown_as(getattr(cls, name), getattr(mixin, name))
            for name in getattr(mixin, "_tnt_signatures_of_others", ())
        },
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

    @functools.wraps(shown)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return method(self, *args, **kwargs)

    return call


def has_keras_methods(model: keras.Model, *names: str) -> bool:
    """Return whether methods of a model are those of `keras.Model`, the mixins left out. Local."""
    plain = plain_class(type(model))
    return all(getattr(plain, name) is getattr(keras.Model, name) for name in names)


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
