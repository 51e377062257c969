"""Batch normalisation by the statistics of each rank's rows: a mark in the graph that is traced.

While a step is traced, a layer that trains calls a nested function that says of itself that it
computes on local rows. The partition emits the body of such a function on the rows of a rank as it
is. Where it can be, the body is one operation of TensorFlow instead of the dozen of which Keras
composes it: `FusedBatchNormV3` gives the same numbers to rounding with less memory traffic. That is
for images (4 dimensions) with channels last or first, without mask. On one rank, too, batch
normalisation is fused where it can be.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from tnt_keras.keras_hooks.patch import replaced
from tnt_keras.partition import local_region
from tnt_keras.step.owner import StepOptions

_DATA_FORMATS = {1: "NCHW", 3: "NHWC"}  # by the axis of the channels
_DTYPES = frozenset({tf.float16, tf.bfloat16, tf.float32})
_LEAST_EPSILON = 1.001e-5  # that of cuDNN


@contextlib.contextmanager
def fused_batch_norm(is_wanted: bool = True) -> Iterator[None]:
    """Fuse `keras.layers.BatchNormalization` in a with-block, if wanted, on one rank. Local."""
    with _replaced_call(_fusing) if is_wanted else contextlib.nullcontext():
        yield


@dataclasses.dataclass(frozen=True)
class Normalisations:
    """The ids of the layers of batch normalisation that train in a step."""

    local: set[int] = dataclasses.field(default_factory=set)  # statistics of a rank's rows
    whole: set[int] = dataclasses.field(default_factory=set)  # of the batch


@contextlib.contextmanager
def marked_batch_norm(options: StepOptions) -> Iterator[Normalisations]:
    """Let layers that train in a with-block take statistics of local rows; yield them. Local.

    Not those with `synchronized=True`, nor those of derived classes, which take those of the batch.
    """
    found = Normalisations()
    marking = functools.partial(_marking, options=options, found=found)
    with _replaced_call(marking), contextlib.ExitStack() as stack:
        for derived in _derived_from(keras.layers.BatchNormalization):
            if "call" in vars(derived):
                noting = _noting(vars(derived)["call"], found)
                stack.enter_context(replaced(derived, "call", noting))
        yield found


def is_local(layer: Any) -> bool:
    """Return whether a layer takes the statistics of each rank's rows when it trains. Local."""
    # A derived class may have moments of its own.
    return (
        type(layer) is keras.layers.BatchNormalization
        and layer.trainable
        and not layer.synchronized
    )


def _replaced_call(
    replace: Callable[[Callable[..., Any]], Callable[..., Any]],
) -> contextlib.AbstractContextManager[None]:
    plain = keras.layers.BatchNormalization.call
    return replaced(keras.layers.BatchNormalization, "call", replace(plain))


def _fusing(plain: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def call(self: Any, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        is_plain_class = type(self) is keras.layers.BatchNormalization
        if training and self.trainable and is_plain_class and _can_be_fused(self, inputs, mask):
            outputs, *moved = _fused(self, inputs, _values(self))
            _assign(self, moved)
            return outputs
        return plain(self, inputs, training=training, mask=mask)

    return call


def _derived_from(base: type[Any]) -> Iterator[type[Any]]:
    for derived in base.__subclasses__():
        yield derived
        yield from _derived_from(derived)


def _noting(plain: Callable[..., Any], found: Normalisations) -> Callable[..., Any]:
    @functools.wraps(plain)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("training") and self.trainable:
            found.whole.add(id(self))
        return plain(self, *args, **kwargs)

    return call


def _marking(
    plain: Callable[..., Any], options: StepOptions, found: Normalisations
) -> Callable[..., Any]:
    @functools.wraps(plain)
    def call(self: Any, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        if not (training and self.trainable):
            return plain(self, inputs, training=training, mask=mask)
        is_marked = options.batch_norm == "local" and is_local(self) and not tf.executing_eagerly()
        (found.local if is_marked else found.whole).add(id(self))
        if not is_marked:
            return plain(self, inputs, training=training, mask=mask)
        is_fused = options.fuses_batch_norm and _can_be_fused(self, inputs, mask)

        def normalise(inputs: Any, mask: Any, values: list[tf.Tensor]) -> Any:
            if is_fused:
                outputs, *moved = _fused(self, inputs, values)
            else:
                outputs, *moved = _composed(self, plain, inputs, mask, values)
            return outputs, *map(tf.stop_gradient, moved)

        outputs, *moved = local_region(normalise)(inputs, mask, _values(self))
        _assign(self, moved)
        return outputs

    return call


def _can_be_fused(layer: Any, inputs: Any, mask: Any) -> bool:
    return (
        mask is None
        and isinstance(inputs, tf.Tensor)
        and inputs.shape.rank == 4
        and layer.axis % 4 in _DATA_FORMATS
        and inputs.dtype in _DTYPES
        and layer.epsilon >= _LEAST_EPSILON
        and not getattr(layer, "renorm", False)  # older versions of Keras have none
    )


def _values(layer: Any) -> list[tf.Tensor]:
    return [tf.convert_to_tensor(variable) for variable in layer.variables]


def _assign(layer: Any, moved: list[tf.Tensor]) -> None:
    for variable, value in zip(layer.non_trainable_variables, moved, strict=True):
        variable.assign(value)


def _composed(
    layer: Any, plain: Callable[..., Any], inputs: Any, mask: Any, values: list[tf.Tensor]
) -> tuple[Any, ...]:
    """Return what Keras computes: the output, and what it makes of the layer's statistics."""
    with keras.StatelessScope(zip(layer.variables, values, strict=True)) as scope:
        outputs = plain(layer, inputs, training=True, mask=mask)
    return outputs, *map(scope.get_current_value, layer.non_trainable_variables)


def _fused(layer: Any, inputs: tf.Tensor, values: list[tf.Tensor]) -> tuple[Any, ...]:
    """Return output and moved statistics of a layer; variances are biased, as in Keras."""
    of = dict(zip(map(id, layer.variables), values, strict=True))
    axis = layer.axis % 4
    num_channels = inputs.shape[axis]
    scale = tf.cast(of[id(layer.gamma)], tf.float32) if layer.scale else tf.ones([num_channels])
    offset = tf.cast(of[id(layer.beta)], tf.float32) if layer.center else tf.zeros([num_channels])
    outputs, mean, variance, *_ = tf.raw_ops.FusedBatchNormV3(
        x=tf.cast(inputs, tf.float32),
        scale=scale,
        offset=offset,
        mean=tf.zeros([0]),
        variance=tf.zeros([0]),
        epsilon=layer.epsilon,
        data_format=_DATA_FORMATS[axis],
        is_training=True,
    )
    statistics = {
        id(layer.moving_mean): mean,
        id(layer.moving_variance): _biased(variance, inputs, num_channels),
    }
    moved = [
        _moved(of[id(variable)], statistics[id(variable)], layer.momentum)
        for variable in layer.non_trainable_variables
    ]
    return tf.cast(outputs, layer.compute_dtype), *moved


def _biased(variance: tf.Tensor, inputs: tf.Tensor, num_channels: int) -> tf.Tensor:
    """Return the mean squared distance, of the sum divided by one less that TensorFlow gives."""
    count = tf.cast(tf.size(inputs, tf.int64) // num_channels, tf.float32)
    # Of a single value TensorFlow may have divided by zero.
    return tf.math.multiply_no_nan(variance, (count - 1.0) / count)


def _moved(before: tf.Tensor, value: tf.Tensor, momentum: float) -> tf.Tensor:
    moved = tf.cast(before, tf.float32) * momentum + value * (1.0 - momentum)
    return tf.cast(moved, before.dtype)
