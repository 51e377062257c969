"""Find the layers and metrics that a function of the user's own uses."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import keras

from tnt_keras.keras_hooks.patch import replaced, replaced_in_subclasses


class UsedObjects:
    """The layers and metrics that run inside a with-block, the outermost ones only.

    Attributes:
        layers: Models are layers too.
        metrics: Those that are not inside of such a layer.
    """

    def __init__(self) -> None:
        self.layers: list[Any] = []
        self.metrics: list[Any] = []
        self._depth = 0

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Note what is called in a with-block. Local."""
        calling = self._noting(self.layers, keras.Layer.__call__)
        updating = functools.partial(self._noting, self.metrics)
        with (
            replaced(keras.Layer, "__call__", calling),
            replaced_in_subclasses(keras.Metric, "update_state", updating),
        ):
            yield

    def _noting(self, found: list[Any], plain: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(plain)
        def call(used: Any, *args: Any, **kwargs: Any) -> Any:
            if self._depth == 0 and not any(used is known for known in found):
                found.append(used)
            self._depth += 1
            try:
                return plain(used, *args, **kwargs)
            finally:
                self._depth -= 1

        return call
