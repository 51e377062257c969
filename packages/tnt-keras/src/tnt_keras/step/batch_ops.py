"""The operations by which a step uses all rows of the global batch, not only those of its rank.

    features = tnt.gather_batch(features)            # contrastive losses
    count = tnt.batch_sum(one_hot)                   # statistics that are sums
    loss = tnt.batch_mean(losses, weights=mask)      # masked quotients

They may be used wherever the code of a step comes: in `train_step`, `test_step`, a layer's `call`,
a loss or a metric, also on the tensors of a functional model. On one rank, while a model is built,
and outside of the steps of a distributed model they are the plain operations on the given rows.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tnt_keras.step.across_ranks import rows_of_all_ranks, sums_over_ranks
from tnt_keras.step.context import Step, current_step


def gather_batch(x: Any) -> Any:
    """Return all rows of the global batch in serial order. Collective inside of a step.

    Row p of a batch that Tarantella has split over n ranks is row p // n of rank p mod n. Of
    samples that ranks share by themselves (`tnt_distribute_dataset=False`) the first of each rank
    come first, then the second ones, and so on.

    It can be differentiated once. The loss of the batch is L = sum_r w_r * L_r, with w_r = n_r / n
    of the n samples (1 where `optimizer.scale_loss` has multiplied the loss by that, or where the
    gradients of ranks are summed). Rank q receives (1 / w_q) * sum_r w_r * dL_r / d(its rows of the
    result), so that weights are updated as in the serial run.

    Args:
        x: Dense numeric or boolean tensor of shape `(k * samples of this rank, ...)`, with any
            whole number k; all other dimensions are the same on all ranks.

    Returns:
        Tensor of shape `(k * samples of the global batch, ...)` and the dtype of `x`, the same on
        every rank. On one rank, and outside of a step, `x` itself.

    Raises:
        NotImplementedError: If its gradient is differentiated.
        RuntimeError: Inside of a `tf.cond`, `tf.while_loop` or `tf.map_fn` of a step.
        TypeError: If `x` is not a dense tensor of numbers or booleans.
        ValueError: If `x` is a scalar; when the step runs, if ranks have other numbers of rows for
            each sample.
    """
    if _is_symbolic(x):
        return GatherBatch().symbolic_call(x)
    rows = _as_rows(x, "gather_batch")
    step = current_step()
    return rows if step is None else rows_of_all_ranks(rows, "tnt.gather_batch", step)


def batch_sum(x: Any) -> Any:
    """Return the sum over all rows of the global batch. Collective inside of a step.

    It can be differentiated once, as `gather_batch`.

    Args:
        x: Dense numeric or boolean tensor of shape `(rows, ...)`. Ranks may have any numbers of
            rows (a boolean mask may have selected them); all other dimensions are known and the
            same on all ranks. Booleans are summed as int32.

    Returns:
        Tensor of the shape of one row, bitwise the same on every rank. On one rank, and outside of
        a step, the sum of the given rows.

    Raises:
        NotImplementedError: If its gradient is differentiated.
        RuntimeError: Inside of a `tf.cond`, `tf.while_loop` or `tf.map_fn` of a step.
        TypeError: If `x` is not a dense tensor of numbers or booleans.
        ValueError: If `x` is a scalar, or has an unknown dimension besides the first.
    """
    if _is_symbolic(x):
        return BatchSum().symbolic_call(x)
    rows = _as_rows(x, "batch_sum")
    if rows.dtype.is_bool:
        rows = tf.cast(rows, tf.int32)
    [total] = _sums([rows], "tnt.batch_sum", current_step())
    return total


def batch_mean(x: Any, weights: Any = None) -> Any:
    """Return the weighted mean over all rows of the global batch. Collective inside of a step.

    It is sum_i(x_i * weights_i) / sum_i(weights_i) over the rows i of all ranks, and 0 where the
    sum of weights is 0. The result is the same number on all ranks, so that its mean over ranks,
    weighted by samples, which losses and logs get, is that number again.

    It can be differentiated once, as `gather_batch`, also with respect to the weights.

    Args:
        x: Dense numeric or boolean tensor of shape `(rows, ...)`, as for `batch_sum`. What is not
            floating-point is cast to `keras.config.floatx()`.
        weights: Tensor of shape `(rows, ...)` such as a mask, None for the number of rows. Missing
            dimensions are added at the end; then it must be possible to broadcast `x * weights`.

    Returns:
        Tensor of the shape of one row of `x * weights`, bitwise the same on every rank.
        Half-precision rows are summed in float32. On one rank, and outside of a step, the mean of
        the given rows.

    Raises:
        NotImplementedError: If its gradient is differentiated.
        RuntimeError: Inside of a `tf.cond`, `tf.while_loop` or `tf.map_fn` of a step.
        TypeError: If `x` or `weights` is not a dense tensor of numbers or booleans.
        ValueError: If `x` or `weights` is a scalar or has an unknown dimension besides the first,
            or if `weights` has more dimensions than `x`.
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
    total, divisor = _sums([rows * weights, weights], "tnt.batch_mean", current_step())
    return tf.cast(tf.math.divide_no_nan(total, divisor), result_dtype)


@keras.saving.register_keras_serializable("tarantella")
class GatherBatch(keras.Operation):
    """`gather_batch` as a part of a functional model."""

    def call(self, x: Any) -> Any:
        """Return what `gather_batch` returns for tensors. Collective inside of a step."""
        return gather_batch(x)

    def compute_output_spec(self, x: Any) -> Any:
        """Describe the result, of an unknown number of rows. Local."""
        return keras.KerasTensor((None, *x.shape[1:]), dtype=x.dtype)


@keras.saving.register_keras_serializable("tarantella")
class BatchSum(keras.Operation):
    """`batch_sum` as a part of a functional model."""

    def call(self, x: Any) -> Any:
        """Return what `batch_sum` returns for tensors. Collective inside of a step."""
        return batch_sum(x)


@keras.saving.register_keras_serializable("tarantella")
class BatchMean(keras.Operation):
    """`batch_mean` as a part of a functional model."""

    def call(self, x: Any, weights: Any = None) -> Any:
        """Return what `batch_mean` returns for tensors. Collective inside of a step."""
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


def _sums(values: list[tf.Tensor], function: str, step: Step | None) -> list[tf.Tensor]:
    of_rank = [tf.reduce_sum(value, axis=0) for value in values]
    return of_rank if step is None else sums_over_ranks(of_rank, function, step)
