"""Give an existing object more behaviour by exchanging its class in place.

The object stays the same object: every reference to it sees the new behaviour, and its variables,
attributes and `isinstance` relations are untouched. Names and module of the new class are those of
the old one, so that messages and files do not show the exchange.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

MixinBase: Any = object
"""Base of mixins, for type checkers: `super()` finds methods of the class beside the mixin."""


def add_mixin(instance: Any, mixin: type) -> None:
    """Put `mixin` in front of the classes of `instance`; nothing happens if it is there. Local.

    Args:
        instance: Any object whose class allows the exchange.
        mixin: Class whose methods come first.
    """
    if not isinstance(instance, mixin):
        object.__setattr__(instance, "__class__", _with_mixin(type(instance), mixin))


def plain_class(cls: type) -> type:
    """Return the class that `add_mixin` replaced, or `cls` itself. Local."""
    plain = cls.__dict__.get("_tnt_plain_class", cls)
    assert isinstance(plain, type)
    return plain


@contextlib.contextmanager
def without_mixins(*instances: Any) -> Iterator[None]:
    """Restore the objects' own classes in a with-block, so that files hold plain objects. Local.

    Args:
        *instances: Objects with or without mixin; None is allowed.
    """
    classes = [type(instance) for instance in instances]
    for instance, cls in zip(instances, classes, strict=True):
        if plain_class(cls) is not cls:
            object.__setattr__(instance, "__class__", plain_class(cls))
    try:
        yield
    finally:
        for instance, cls in zip(instances, classes, strict=True):
            if type(instance) is not cls:
                object.__setattr__(instance, "__class__", cls)


# One class for each pair, so that two models of one class stay of one class.
_classes: dict[tuple[type, type], type] = {}


def _with_mixin(cls: type, mixin: type) -> type:
    if (cls, mixin) not in _classes:
        _classes[cls, mixin] = _make_class(cls, mixin)
    return _classes[cls, mixin]


def _make_class(cls: type, mixin: type) -> type:
    namespace = {
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
        "_tnt_plain_class": cls,
    }
    return type(cls.__name__, (mixin, cls), namespace)
