"""Layers that keep a value between steps: counts, sums and largest values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from . import data
from .case import Training, right, wrong


class Keeping(keras.layers.Layer):
    """Keeps a variable, whose new value it computes in training from the old one and its input.

    Args:
        new: Returns the new value.
        shape: Of the variable.
        dtype_kept: Of the variable.
        use: Returns the layer's output from the input and the new value; by default the input.
    """

    def __init__(
        self,
        new: Callable[[Any, Any], Any],
        shape: tuple[int, ...] = (),
        dtype_kept: str = "float32",
        use: Callable[[Any, Any], Any] = lambda x, kept: x,
    ) -> None:
        super().__init__()
        self.new = new
        self.use = use
        self.kept = self.add_weight(
            shape=shape, dtype=dtype_kept, initializer="zeros", trainable=False, name="kept"
        )

    def call(self, x: Any, training: bool = False) -> Any:
        if training:
            self.kept.assign(self.new(self.kept.value, x))
        return self.use(x, self.kept.value)


def after_features(layer: Any, **compile_arguments: Any) -> Training:
    """Return a regression whose features go through a layer first."""
    model = keras.Sequential([keras.Input((6,)), layer, keras.layers.Dense(1)])
    model.compile(**{"optimizer": keras.optimizers.SGD(0.1), "loss": "mse"} | compile_arguments)
    return model, data.of_arrays(data.features(), data.targets())


@wrong()
def samples_counted_as_integer() -> Training:
    return after_features(Keeping(lambda kept, x: kept + tf.shape(x)[0], dtype_kept="int32"))


@wrong()
def samples_counted_as_float() -> Training:
    return after_features(Keeping(lambda kept, x: kept + tf.cast(tf.shape(x)[0], tf.float32)))


@wrong()
def sum_of_features() -> Training:
    return after_features(Keeping(lambda kept, x: kept + tf.reduce_sum(x, axis=0), (6,)))


@wrong()
def histogram_of_features() -> Training:
    """How often a feature was positive, in int64."""
    return after_features(
        Keeping(
            lambda kept, x: kept + tf.math.count_nonzero(x > 0.0, axis=0),
            (6,),
            dtype_kept="int64",
        )
    )


@wrong()
def largest_feature_so_far() -> Training:
    """The observer of quantisation-aware training."""
    return after_features(
        Keeping(
            lambda kept, x: tf.maximum(kept, tf.reduce_max(tf.abs(x))),
            use=lambda x, kept: x / 4.0,
        )
    )


@wrong()
def largest_feature_of_last_batch() -> Training:
    return after_features(Keeping(lambda kept, x: tf.reduce_max(tf.abs(x), axis=0), (6,)))


@wrong()
def smallest_feature_so_far() -> Training:
    return after_features(Keeping(lambda kept, x: tf.minimum(kept, tf.reduce_min(x))))


@wrong()
def gradient_that_is_the_new_value() -> Training:
    """The scale of an 8-bit layer: its gradient overwrites it, and is the largest entry seen."""

    class Scaled(keras.layers.Layer):
        def build(self, shape: Any) -> None:
            self.scale = self.add_weight(shape=(), initializer="ones", name="scale")
            self.scale.overwrite_with_gradient = True

        def call(self, x: Any) -> Any:
            @tf.custom_gradient
            def scaled(values: Any, scale: Any) -> Any:
                def gradient(upstream: Any, variables: Any = None) -> Any:
                    return upstream, tf.reduce_max(tf.abs(values))

                return values / 2.0 + 0.0 * scale, gradient

            return scaled(x, self.scale.value)

    return after_features(Scaled())


@right()
def steps_counted() -> Training:
    return after_features(Keeping(lambda kept, x: kept + 1, dtype_kept="int32"))


@right()
def steps_counted_as_float() -> Training:
    return after_features(Keeping(lambda kept, x: kept + 1.0))
