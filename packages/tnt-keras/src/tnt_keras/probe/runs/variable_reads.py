"""Notice which variables a step reads, tracked by the model or not."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

import tensorflow as tf

from tnt_keras.keras_hooks.private_tensorflow import noted_variable_reads


class VariableReads:
    """The variables that are read in some blocks, of Keras their `.value`, each once."""

    def __init__(self) -> None:
        self._read: dict[int, tf.Variable] = {}

    @contextlib.contextmanager
    def watching(self, counts: Callable[[], bool]) -> Iterator[None]:
        """Note what this thread reads in the block, also when a graph is traced. Local.

        Args:
            counts: Returns whether a read is to be noted.
        """
        thread = threading.get_ident()

        def note(variable: tf.Variable) -> None:
            if threading.get_ident() == thread and counts():
                self._read[id(variable)] = variable

        with noted_variable_reads(note):
            yield

    @property
    def variables(self) -> list[tf.Variable]:
        """The variables in the order in which they were first read."""
        return list(self._read.values())
