"""The methods by which variables of TensorFlow are changed, and how to replace all of them.

Not among them are raw operations on the handle of a variable.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from tnt_keras.keras_hooks.patch import replaced


@contextlib.contextmanager
def replaced_assigning_methods(
    replace: Callable[[Callable[..., Any]], Callable[..., Any]],
) -> Iterator[None]:
    """Replace every method that changes the value of a variable inside a with-block. Local.

    Variables of Keras and other threads are concerned too.

    Args:
        replace: Given a method, the one that is used in the block. Both take a `tf.Variable` and
            the arguments of the method.
    """
    with contextlib.ExitStack() as stack:
        for owner, name in assigning_methods():
            stack.enter_context(replaced(owner, name, replace(vars(owner)[name])))
        yield


@functools.cache
def assigning_methods() -> list[tuple[type, str]]:
    """Return class and name of all methods that change the value of a variable. Local."""
    # Keras' variables hold one of this class or of a sister of it, which a graph would give.
    with tf.init_scope():
        cls = type(tf.Variable(0.0))
    return [
        (owner, name)
        for owner in cls.__mro__
        for name, function in vars(owner).items()
        if inspect.isfunction(function) and _changes_values(name)
    ]


def _changes_values(name: str) -> bool:
    """Return whether a method of a variable changes its value, by its name."""
    if name.endswith("assign"):  # that of slices begins with an underscore
        return True
    is_public = not name.startswith("_")
    return is_public and ("assign" in name or "scatter" in name or name == "count_up_to")
