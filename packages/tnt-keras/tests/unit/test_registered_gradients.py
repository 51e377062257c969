"""What `tf.custom_gradient` is given in a graph does not stay for ever."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tnt_keras.keras_hooks.private_tensorflow import registered_gradient


@tf.custom_gradient
def _square(x: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
    """Has three times the gradient that it should have, to be told from TensorFlow's own."""
    return x * x, lambda upstream: 6.0 * x * upstream


def test_a_gradient_is_found_by_name_as_long_as_it_is_kept() -> None:
    kept: list[Any] = []

    @tf.function
    def gradient_of(x: tf.Tensor) -> tf.Tensor:
        y = _square(x)
        kept.append(registered_gradient(y))
        [gradient] = tf.gradients(y, x)  # by the name that the operation has, not by a tape
        return gradient

    assert float(gradient_of(tf.constant(2.0))) == 12.0
    [function] = kept
    reference = weakref.ref(function)
    del function
    kept.clear()
    gc.collect()
    assert reference() is None


def test_an_eager_result_has_none_to_keep() -> None:
    assert registered_gradient(_square(tf.constant(2.0))) is None
