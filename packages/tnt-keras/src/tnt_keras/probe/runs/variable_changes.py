"""Notice which variables a step assigns, tracked by the model or not, and give their values back.

What counts is every method that changes a variable. Not noticed are raw operations on the handle of
a variable, and what the step keeps in Python objects.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from tnt_keras.step.assignments.assigning_methods import replaced_assigning_methods


class VariableChanges:
    """The values of variables before their first assignment."""

    def __init__(self) -> None:
        self._initial: dict[Any, tf.Tensor] = {}
        self._is_suspended = False

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Save each variable at its first assignment in any of these blocks. Local.

        Only assignments by this thread count. Inside a function that is traced the value of the
        time of tracing is saved.
        """
        thread = threading.get_ident()

        def saving(plain: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(plain)
            def assign(variable: tf.Variable, *args: Any, **kwargs: Any) -> Any:
                if threading.get_ident() == thread and not self._is_suspended:
                    self._save(variable)
                return plain(variable, *args, **kwargs)

            return assign

        with replaced_assigning_methods(saving):
            yield

    @contextlib.contextmanager
    def suspended(self) -> Iterator[None]:
        """Ignore assignments in a with-block inside of a watched one. Local."""
        self._is_suspended = True
        try:
            yield
        finally:
            self._is_suspended = False

    @property
    def variables(self) -> list[tf.Variable]:
        """The assigned variables in order of first assignment; of a Keras variable its `.value`."""
        return [reference.deref() for reference in self._initial]

    def initial(self, variable: tf.Variable | keras.Variable) -> tf.Tensor:
        """Return what a variable was before its first assignment. Local.

        Args:
            variable: Assigned in a block, a `keras.Variable` or what backs it.

        Returns:
            Of the variable's shape and dtype.

        Raises:
            KeyError: If it was not assigned.
        """
        return self._initial[_backing(variable).ref()]

    def restore(self) -> None:
        """Give all variables their first values, as often as wanted. Local."""
        for reference, value in self._initial.items():
            reference.deref().assign(value, read_value=False)

    def _save(self, variable: tf.Variable) -> None:
        reference = variable.ref()
        if reference not in self._initial:
            with tf.init_scope():
                # The operation itself: a read would make tapes watch the variable.
                self._initial[reference] = tf.raw_ops.ReadVariableOp(
                    resource=variable.handle, dtype=variable.dtype
                )


def _backing(variable: tf.Variable | keras.Variable) -> tf.Variable:
    return variable.value if isinstance(variable, keras.Variable) else variable
