"""How much a step computes from its samples."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from tnt_keras.keras_hooks.patch import replaced


class ComputedSize:
    """The size of what layers return while a step runs; that of its memory and work grows with it.

    Attributes:
        num_bytes: So far. What a layer returns counts again for the model around it.
    """

    def __init__(self) -> None:
        self.num_bytes = 0

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Add up in a with-block around the step. Local."""
        counting = self._counting(keras.layers.Layer.__call__)
        with replaced(keras.layers.Layer, "__call__", counting):
            yield

    def _counting(self, plain_call: Callable[..., Any]) -> Callable[..., Any]:
        def call(layer: Any, *args: Any, **kwargs: Any) -> Any:
            outputs = plain_call(layer, *args, **kwargs)
            self.num_bytes += size_of(outputs)
            return outputs

        return call


def size_of(structure: Any) -> int:
    """Return the number of bytes of the dense tensors of a structure, open dimensions as 1. Local.

    Args:
        structure: Of tensors and anything else.
    """
    return sum(
        leaf.dtype.size * _num_entries(leaf)
        for leaf in keras.tree.flatten(structure)
        if isinstance(leaf, tf.Tensor)
    )


def _num_entries(tensor: tf.Tensor) -> int:
    entries = 1
    for size in tensor.shape.as_list() if tensor.shape.rank else ():
        entries *= size or 1
    return entries
