"""Operations over all rows of the batch, of earlier versions: they are ordinary ones now.

    features = tnt.gather_batch(features)            # contrastive losses
    count = tnt.batch_sum(one_hot)                   # statistics that are sums
    loss = tnt.batch_mean(losses, weights=mask)      # masked quotients

A step has all rows of the global batch, on any number of ranks, so that these are `x`,
`tf.reduce_sum(x, 0)` and a quotient of such sums. They stay for programs and files that name them.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf


def gather_batch(x: Any) -> Any:
    """Return all rows of the global batch in serial order: `x` itself. Local.

    Args:
        x: Dense numeric or boolean tensor of shape `(rows, ...)`.

    Raises:
        TypeError: If `x` is not a dense tensor of numbers or booleans.
        ValueError: If `x` is a scalar.
    """
    return GatherBatch().symbolic_call(x) if _is_symbolic(x) else _as_rows(x, "gather_batch")


def batch_sum(x: Any) -> Any:
    """Return the sum over all rows of the global batch. Local.

    Args:
        x: Dense numeric or boolean tensor of shape `(rows, ...)`. Booleans are summed as int32.

    Returns:
        Tensor of the shape of one row.

    Raises:
        TypeError: If `x` is not a dense tensor of numbers or booleans.
        ValueError: If `x` is a scalar.
    """
    if _is_symbolic(x):
        return BatchSum().symbolic_call(x)
    rows = _as_rows(x, "batch_sum")
    return tf.reduce_sum(tf.cast(rows, tf.int32) if rows.dtype.is_bool else rows, axis=0)


def batch_mean(x: Any, weights: Any = None) -> Any:
    """Return the weighted mean over all rows of the global batch. Local.

    It is sum_i(x_i * weights_i) / sum_i(weights_i), and 0 where the sum of weights is 0.

    Args:
        x: Dense numeric or boolean tensor of shape `(rows, ...)`. What is not floating-point is
            cast to `keras.config.floatx()`.
        weights: Tensor of shape `(rows, ...)` such as a mask, None for the number of rows. Missing
            dimensions are added at the end; then it must be possible to broadcast `x * weights`.

    Returns:
        Tensor of the shape of one row of `x * weights`. Half-precision rows are summed in float32.

    Raises:
        TypeError: If `x` or `weights` is not a dense tensor of numbers or booleans.
        ValueError: If `x` or `weights` is a scalar, or if `weights` has more dimensions than `x`.
    """
    if _is_symbolic(x, weights):
        return BatchMean().symbolic_call(x, weights)
    rows = _as_rows(x, "batch_mean")
    result_dtype = rows.dtype if rows.dtype.is_floating else tf.as_dtype(keras.config.floatx())
    dtype = tf.float32 if result_dtype.size < 4 else result_dtype
    rows = tf.cast(rows, dtype)
    if weights is None:
        weights = tf.ones(tf.shape(rows)[:1], dtype)
    weights = _of_rank(tf.cast(_as_rows(weights, "batch_mean"), dtype), rows.shape.rank)
    total, divisor = tf.reduce_sum(rows * weights, 0), tf.reduce_sum(weights, 0)
    return tf.cast(tf.math.divide_no_nan(total, divisor), result_dtype)


@keras.saving.register_keras_serializable("tarantella")
class GatherBatch(keras.Operation):
    """`gather_batch` as a part of a functional model."""

    def call(self, x: Any) -> Any:
        """Return what `gather_batch` returns for tensors. Local."""
        return gather_batch(x)

    def compute_output_spec(self, x: Any) -> Any:
        """Describe the result, of an unknown number of rows. Local."""
        return keras.KerasTensor((None, *x.shape[1:]), dtype=x.dtype)


@keras.saving.register_keras_serializable("tarantella")
class BatchSum(keras.Operation):
    """`batch_sum` as a part of a functional model."""

    def call(self, x: Any) -> Any:
        """Return what `batch_sum` returns for tensors. Local."""
        return batch_sum(x)


@keras.saving.register_keras_serializable("tarantella")
class BatchMean(keras.Operation):
    """`batch_mean` as a part of a functional model."""

    def call(self, x: Any, weights: Any = None) -> Any:
        """Return what `batch_mean` returns for tensors. Local."""
        return batch_mean(x, weights)


def _is_symbolic(*values: Any) -> bool:
    return any(isinstance(value, keras.KerasTensor) for value in values)


def _as_rows(x: Any, function: str) -> tf.Tensor:
    if isinstance(x, tf.RaggedTensor | tf.SparseTensor | tf.IndexedSlices):
        raise TypeError(f"`tnt.{function}` takes dense tensors. Received: {type(x).__name__}.")
    rows = tf.convert_to_tensor(x)
    if not (rows.dtype.is_floating or rows.dtype.is_integer or rows.dtype.is_bool):
        raise TypeError(
            f"`tnt.{function}` takes numbers or booleans. Received: dtype {rows.dtype.name}."
        )
    if rows.shape.rank == 0:
        raise ValueError(
            f"`tnt.{function}` takes rows, a tensor of shape (rows, ...). Received: a scalar."
        )
    return rows


def _of_rank(weights: tf.Tensor, rank: int) -> tf.Tensor:
    if weights.shape.rank > rank:
        raise ValueError(
            "The weights of `tnt.batch_mean` must not have more dimensions than `x`. "
            f"Received: {weights.shape.rank} and {rank} dimensions."
        )
    return weights[(..., *[tf.newaxis] * (rank - weights.shape.rank))]
