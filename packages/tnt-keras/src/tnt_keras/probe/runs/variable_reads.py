"""Notice which variables a step reads, tracked by the model or not.

Not noticed is a `tf.Variable` that an eager step hands to a function of TensorFlow as it is, such
as `tf.multiply(variable, loss)`: TensorFlow reads it outside of Python.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from tnt_keras.keras_hooks.patch import replaced
from tnt_keras.keras_hooks.private_tensorflow import noted_variable_reads


class VariableReads:
    """The variables that are read in some blocks."""

    def __init__(self) -> None:
        self._read: dict[int, tf.Variable | keras.Variable] = {}

    @contextlib.contextmanager
    def watching(self, counts: Callable[[], bool]) -> Iterator[None]:
        """Note what this thread reads in the block, also when a graph is traced. Local.

        Args:
            counts: Returns whether a read is to be noted.
        """

        def note(variable: tf.Variable | keras.Variable) -> None:
            if counts():
                self._read[id(variable)] = variable

        plain_value = keras.Variable.value

        def value(variable: keras.Variable) -> Any:
            note(variable)
            return plain_value.__get__(variable)

        with noted_variable_reads(note), replaced(keras.Variable, "value", property(value)):
            yield

    @property
    def variables(self) -> list[tf.Variable]:
        """The variables in the order in which they were first read, of Keras their `.value`."""
        backing = [
            each.value if isinstance(each, keras.Variable) else each for each in self._read.values()
        ]
        return list({id(variable): variable for variable in backing}.values())
