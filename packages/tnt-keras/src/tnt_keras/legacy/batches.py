"""Batches as in earlier versions: `Dataset`, one rank's part, and operations over all rows.

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

import tnt_data
from tnt_keras.inputs.arguments import errors_naming
from tnt_keras.inputs.arrays import SEED
from tnt_keras.process.rank import get_rank, get_size


class Dataset:
    """One rank's part of a dataset, to look at it or for your own training loop.

    `fit`, `evaluate` and `predict` do all this by themselves. Pass a rank and the number of ranks
    to look at the parts of all ranks in one process.

    Args:
        dataset: Batched with the global batch size, or unbatched.
        num_ranks: Number of ranks that share it.
        rank: Rank whose part it is.
        shuffle_seed: For shuffles without a seed.
    """

    def __init__(
        self,
        dataset: tf.data.Dataset,
        num_ranks: int | None = None,
        rank: int | None = None,
        shuffle_seed: int = SEED,
    ) -> None:
        self.base_dataset = dataset
        self.num_ranks = get_size() if num_ranks is None else num_ranks
        self.rank = get_rank() if rank is None else rank
        self.shuffle_seed = shuffle_seed
        self._micro_batch_size: int | None = None
        self._counted: tf.data.Dataset | None = None  # batches, once it is distributed
        self._num_samples: int | None = None

    def distribute_dataset_across_ranks(
        self,
        user_micro_batch_size: int | None = None,
        is_training: bool = True,
        apply_batch: bool = True,
    ) -> tf.data.Dataset:
        """Return this rank's part: the rows `batch[rank::num_ranks]` of every batch. Local.

        A rank without samples in a short last batch gets one row, a copy of the first sample, which
        must not count. `tnt_data.distribute` says which rows these are; here they look like others.

        Args:
            user_micro_batch_size: Samples per rank and step, needed for an unbatched dataset.
            is_training: Has no effect: data for evaluation is shared in the same way.
            apply_batch: False for single samples instead of batches, without duplicates.

        Raises:
            ValueError: If the dataset is not batched and no micro-batch size is given, or if the
                two contradict each other.
        """
        with errors_naming("dataset", "user_micro_batch_size"):
            pipeline = tnt_data.Pipeline(self.base_dataset)
            local = pipeline.distribute(
                self.rank,
                self.num_ranks,
                micro_batch_size=user_micro_batch_size,
                seed=self.shuffle_seed,
            )
        self._counted, self._micro_batch_size = self.base_dataset, user_micro_batch_size
        if user_micro_batch_size is not None:
            # Elements may be samples although Keras would take them for batches.
            size = user_micro_batch_size * self.num_ranks
            parts = tnt_data.distribute(self.base_dataset, 0, 1, micro_batch_size=size)
            self._counted = parts.map(lambda part: part.data)
        elif pipeline.batch_size is not None:
            self._micro_batch_size = tnt_data.micro_batch_size(
                pipeline.batch_size, self.rank, self.num_ranks
            )
        if not apply_batch:
            with_samples = local.filter(lambda micro_batch: micro_batch.num_local > 0)
            return with_samples.map(lambda micro_batch: micro_batch.data).unbatch()
        return local.map(lambda micro_batch: micro_batch.data)

    @property
    def micro_batch_size(self) -> int | None:
        """Samples of this rank in a full batch; None before it is distributed, or if unknown."""
        return self._micro_batch_size

    @property
    def num_samples(self) -> int:
        """Number of samples of all ranks in one pass, counted by reading them if it is unknown.

        Raises:
            ValueError: If the dataset has no end, or was not distributed yet.
        """
        if self._counted is None:
            raise ValueError("Call `distribute_dataset_across_ranks` first.")
        if self._num_samples is None:
            self._num_samples = self.get_number_samples(self._counted)
        return self._num_samples

    @classmethod
    def get_number_samples(cls, dataset: tf.data.Dataset) -> int:
        """Return the number of samples in one pass over a dataset. Local.

        Args:
            dataset: Batched or unbatched.

        Raises:
            ValueError: If it has no end.
        """
        if int(dataset.cardinality()) == tf.data.INFINITE_CARDINALITY:
            raise ValueError("The dataset has no end, so its samples cannot be counted.")
        if not tnt_data.is_batched(dataset):
            return int(dataset.reduce(tf.constant(0, tf.int64), lambda n, _: n + 1))
        parts = tnt_data.slice_batches(dataset, 0, 1)
        return int(parts.reduce(tf.constant(0, tf.int64), lambda n, part: n + part.num_global))

    def get_gradient_scaling_callback(self) -> keras.callbacks.Callback | None:
        """Return None: steps know the samples of each rank, so no callback is needed. Local."""
        return None

    @staticmethod
    def shuffle_with_seed(dataset: tf.data.Dataset, buffer_size: int, seed: int = SEED) -> Any:
        """Return a dataset that is shuffled in the same order on all ranks. Local.

        Args:
            dataset: Any dataset.
            buffer_size: As for `tf.data.Dataset.shuffle`.
            seed: Likewise.
        """
        return dataset.shuffle(buffer_size, seed=seed)

    def distributed_batch(
        self, dataset: tf.data.Dataset, batch_size: int, drop_remainder: bool = False
    ) -> tf.data.Dataset:
        """Return this rank's rows of the batches into which samples are joined. Local.

        Args:
            dataset: Yields samples.
            batch_size: Number of samples in a batch of all ranks.
            drop_remainder: Whether a short last batch is left out.
        """
        batches = dataset.batch(batch_size, drop_remainder)
        part = type(self)(batches, self.num_ranks, self.rank, self.shuffle_seed)
        return part.distribute_dataset_across_ranks()


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
    weights = tf.cast(_as_rows(weights, "batch_mean"), dtype)
    missing = rows.shape.rank - weights.shape.rank
    if missing < 0:
        raise ValueError(
            "The weights of `tnt.batch_mean` must not have more dimensions than `x`. "
            f"Received: {weights.shape.rank} and {rows.shape.rank} dimensions."
        )
    weights = weights[(..., *[tf.newaxis] * missing)]
    total, divisor = tf.reduce_sum(rows * weights, 0), tf.reduce_sum(weights, 0)
    return tf.cast(tf.math.divide_no_nan(total, divisor), result_dtype)


_in_files = keras.saving.register_keras_serializable("tarantella")


@_in_files
class GatherBatch(keras.Operation):
    """`gather_batch` as a part of a functional model."""

    call = staticmethod(gather_batch)

    def compute_output_spec(self, x: Any) -> Any:
        """Describe the result, of an unknown number of rows. Local."""
        return keras.KerasTensor((None, *x.shape[1:]), dtype=x.dtype)


@_in_files
class BatchSum(keras.Operation):
    """`batch_sum` as a part of a functional model."""

    call = staticmethod(batch_sum)


@_in_files
class BatchMean(keras.Operation):
    """`batch_mean` as a part of a functional model."""

    call = staticmethod(batch_mean)


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
