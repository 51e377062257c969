"""Give batch normalisation of some rows the mean and variance of all.

So the difference that local statistics make is told apart from others: serial and partial run see
the same constants, and in both no gradient flows through them.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from tnt_keras.keras_hooks.private import replaced_batch_moments

Moments = tuple[tf.Tensor, tf.Tensor]


class BatchMoments:
    """Mean and variance of each call of a `BatchNormalization` that trains, in order.

    Functions that are traced, and other threads, do what they do without.
    """

    def __init__(self) -> None:
        self._recorded: list[Moments] = []

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Keep the moments, in place of those kept before. Local."""
        self._recorded = []

        def record(index: int, moments: Callable[[], Moments]) -> Moments:
            mean, variance = moments()
            self._recorded.append((tf.stop_gradient(mean), tf.stop_gradient(variance)))
            return self._recorded[index]

        with _serving(record):
            yield

    @contextlib.contextmanager
    def replaying(self) -> Iterator[None]:
        """Return the kept moments call by call. Local.

        Raises:
            RuntimeError: If there are more calls than were recorded.
        """

        def replay(index: int, moments: Callable[[], Moments]) -> Moments:
            if index >= len(self._recorded):
                raise RuntimeError(
                    f"Batch normalisation was called {len(self._recorded)} times for all rows, and "
                    "more often for some of them."
                )
            return self._recorded[index]

        with _serving(replay):
            yield


@contextlib.contextmanager
def _serving(serve: Callable[[int, Callable[[], Moments]], Moments]) -> Iterator[None]:
    """Call `serve` with index and plain computation in place of each call in this thread."""
    thread = threading.get_ident()
    calls = itertools.count()

    def replace(plain: Callable[..., Moments]) -> Callable[..., Moments]:
        def moments(layer: Any, inputs: tf.Tensor, mask: tf.Tensor | None) -> Moments:
            if threading.get_ident() != thread or not tf.executing_eagerly():
                return plain(layer, inputs, mask)
            return serve(next(calls), lambda: plain(layer, inputs, mask))

        return moments

    with replaced_batch_moments(replace):
        yield
