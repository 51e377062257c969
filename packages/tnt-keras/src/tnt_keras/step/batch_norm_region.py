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
from typing import Any, TypeAlias

import keras
import tensorflow as tf

from tnt_keras.keras_hooks.patch import replaced
from tnt_keras.partition import local_region
from tnt_keras.step.owner import StepOptions

_DATA_FORMATS = {1: "NCHW", 3: "NHWC"}  # by the axis of the channels
_DTYPES = frozenset({tf.float16, tf.bfloat16, tf.float32})
_LEAST_EPSILON = 1.001e-5  # that of cuDNN


_Normalise: TypeAlias = Callable[[Any, Any, list[tf.Tensor]], tuple[Any, ...]]
"""Takes inputs, mask and values of a layer's variables; returns outputs and moved statistics."""


def fused_batch_norm(is_wanted: bool = True) -> contextlib.AbstractContextManager[None]:
    """Fuse `keras.layers.BatchNormalization` in a with-block, if wanted, on one rank. Local."""

    def choose(layer: Any, inputs: Any, mask: Any) -> _Normalise | None:
        is_plain_class = type(layer) is keras.layers.BatchNormalization
        is_fused = is_plain_class and _can_be_fused(layer, inputs, mask)
        return functools.partial(_fused, layer) if is_fused else None

    return _replaced_call(choose) if is_wanted else contextlib.nullcontext()


@dataclasses.dataclass(frozen=True)
class Normalisations:
    """The ids of the layers of batch normalisation that train in a step."""

    local: set[int] = dataclasses.field(default_factory=set)  # statistics of a rank's rows
    whole: set[int] = dataclasses.field(default_factory=set)  # of the batch


@contextlib.contextmanager
def marked_batch_norm(options: StepOptions) -> Iterator[Normalisations]:
    """Let layers that train in a with-block take statistics of local rows; yield them. Local.

    Not those with `synchronized=True`, nor those of derived classes, which may have moments of
    their own and take those of the batch.
    """
    found = Normalisations()
    plain = keras.layers.BatchNormalization.call

    def choose(layer: Any, inputs: Any, mask: Any) -> _Normalise | None:
        is_plain_class = type(layer) is keras.layers.BatchNormalization
        is_local = options.batch_norm == "local" and is_plain_class and not layer.synchronized
        is_marked = is_local and not tf.executing_eagerly()
        (found.local if is_marked else found.whole).add(id(layer))
        if not is_marked:
            return None
        is_fused = options.fuses_batch_norm and _can_be_fused(layer, inputs, mask)
        compute: _Normalise = functools.partial(_composed, layer, plain)
        if is_fused:
            compute = functools.partial(_fused, layer)

        return functools.partial(_of_local_rows, compute)

    with contextlib.ExitStack() as stack:
        stack.enter_context(_replaced_call(choose))
        for derived in _derived_from(keras.layers.BatchNormalization):
            if "call" in vars(derived):
                noting = _noting(vars(derived)["call"], found)
                stack.enter_context(replaced(derived, "call", noting))
        yield found


def _of_local_rows(
    compute: _Normalise, inputs: tf.Tensor, mask: tf.Tensor | None, values: list[tf.Tensor]
) -> tuple[Any, ...]:
    """Return outputs and moved statistics, each replica's own of any number of rows."""
    of_rows = [inputs] if mask is None else [inputs, mask]

    def normalise(*tensors: tf.Tensor) -> Any:
        given, mask_of_rows = (*tensors[: len(of_rows)], None)[:2]
        outputs, *moved = compute(given, mask_of_rows, list(tensors[len(of_rows) :]))
        return outputs, *map(tf.stop_gradient, moved)

    open_shapes = [
        tf.TensorShape([None, *t.shape[1:]]) if t.shape.rank else t.shape for t in of_rows
    ]
    shapes = [*open_shapes, *(value.shape for value in values)]
    tensors = [*map(tf.convert_to_tensor, of_rows), *values]
    specs = [tf.TensorSpec(s, t.dtype) for s, t in zip(shapes, tensors, strict=True)]
    outputs, *moved = local_region(normalise, specs)(*tensors)
    outputs.set_shape(inputs.shape)
    return outputs, *moved


def _replaced_call(
    choose: Callable[[Any, Any, Any], _Normalise | None],
) -> contextlib.AbstractContextManager[None]:
    """Let layers that train compute in a with-block what is chosen, if anything is. Local."""
    plain = keras.layers.BatchNormalization.call

    @functools.wraps(plain)
    def call(self: Any, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        normalise = choose(self, inputs, mask) if training and self.trainable else None
        if normalise is None:
            return plain(self, inputs, training=training, mask=mask)
        values = [tf.convert_to_tensor(variable) for variable in self.variables]
        outputs, *moved = normalise(inputs, mask, values)
        for variable, value in zip(self.non_trainable_variables, moved, strict=True):
            variable.assign(value)
        return outputs

    return replaced(keras.layers.BatchNormalization, "call", call)


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


def _composed(
    layer: Any, plain: Callable[..., Any], inputs: Any, mask: Any, values: list[tf.Tensor]
) -> tuple[Any, ...]:
    """Return what Keras computes: the output, and what it makes of the layer's statistics."""
    with keras.StatelessScope(zip(layer.variables, values, strict=True)) as scope:
        outputs = plain(layer, inputs, training=True, mask=mask)
    return outputs, *map(scope.get_current_value, layer.non_trainable_variables)


def _fused(layer: Any, inputs: tf.Tensor, mask: None, values: list[tf.Tensor]) -> tuple[Any, ...]:
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
    # TensorFlow divides the sum of squares by one less, and for a single value perhaps by zero.
    count = tf.cast(tf.size(inputs, tf.int64) // num_channels, tf.float32)
    biased = tf.math.multiply_no_nan(variance, (count - 1.0) / count)
    statistics = {id(layer.moving_mean): mean, id(layer.moving_variance): biased}
    moved = []
    for variable in layer.non_trainable_variables:
        before, now = of[id(variable)], statistics[id(variable)] * (1.0 - layer.momentum)
        kept = tf.cast(before, tf.float32) * layer.momentum
        moved.append(tf.cast(kept + now, before.dtype))
    return tf.cast(outputs, layer.compute_dtype), *moved
