"""Find the layers that a function of the user's own calls."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import keras

from tnt_keras.keras_hooks.patch import replaced


class UsedLayers:
    """The layers that are called inside a with-block, the outermost ones only; models are layers.

    Attributes:
        layers: Each once, in the order of their first calls.
    """

    def __init__(self) -> None:
        self.layers: list[Any] = []
        self._depth = 0

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Note what is called in a with-block. Local."""
        with replaced(keras.Layer, "__call__", self._noting(keras.Layer.__call__)):
            yield

    def _noting(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(plain)
        def call(used: Any, *args: Any, **kwargs: Any) -> Any:
            if self._depth == 0 and not any(used is known for known in self.layers):
                self.layers.append(used)
            self._depth += 1
            try:
                return plain(used, *args, **kwargs)
            finally:
                self._depth -= 1

        return call
