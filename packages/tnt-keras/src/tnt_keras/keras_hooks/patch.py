"""Replace an attribute for the time of a with-block."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

_ABSENT = object()


@contextlib.contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Give `owner` the attribute `name` inside a with-block and restore what it had. Local.

    For a class this changes all its instances; for an instance it hides the class' attribute. The
    instance's own `__setattr__` is not asked, so that Keras does not track the value.

    Args:
        owner: A class or an instance with a `__dict__`.
        name: Name of the attribute.
        value: What it is inside the block.
    """
    before = owner.__dict__.get(name, _ABSENT)
    set_attribute, delete_attribute = (
        (type.__setattr__, type.__delattr__)
        if isinstance(owner, type)
        else (object.__setattr__, object.__delattr__)
    )
    set_attribute(owner, name, value)
    try:
        yield
    finally:
        if before is _ABSENT:
            delete_attribute(owner, name)
        else:
            set_attribute(owner, name, before)
