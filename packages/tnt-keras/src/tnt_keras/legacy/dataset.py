"""`Dataset`: one rank's part of a dataset, as in earlier versions of Tarantella."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

import tnt_data
from tnt_keras.inputs.arguments import errors_naming
from tnt_keras.inputs.arrays import SEED
from tnt_keras.process.rank import get_rank, get_size


class Dataset:
    """One rank's part of a dataset, for a look at it or for a training loop of one's own.

    `fit`, `evaluate` and `predict` do all this by themselves. Rank and number of ranks can be
    given, so that the parts of all ranks can be looked at in one process.

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
        self._user_micro_batch_size: int | None = None
        self._num_samples: int | None = None
        self._is_distributed = False

    def distribute_dataset_across_ranks(
        self,
        user_micro_batch_size: int | None = None,
        is_training: bool = True,
        apply_batch: bool = True,
    ) -> tf.data.Dataset:
        """Return this rank's part: the rows `batch[rank::num_ranks]` of every batch. Local.

        A rank without samples in a short last batch gets one row, a duplicate of the first sample,
        which must not count. `tnt_data.distribute` says which rows these are; here they cannot
        be distinguished from others.

        Args:
            user_micro_batch_size: Samples per rank and step, needed for an unbatched dataset.
            is_training: Has no effect: data for evaluation are shared likewise.
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
        self._user_micro_batch_size = self._micro_batch_size = user_micro_batch_size
        if user_micro_batch_size is None and pipeline.batch_size is not None:
            self._micro_batch_size = tnt_data.micro_batch_size(
                pipeline.batch_size, self.rank, self.num_ranks
            )
        self._is_distributed = True
        if not apply_batch:
            with_samples = local.filter(lambda micro_batch: micro_batch.num_local > 0)
            return with_samples.map(lambda micro_batch: micro_batch.data).unbatch()
        return local.map(lambda micro_batch: micro_batch.data)

    @property
    def micro_batch_size(self) -> int | None:
        """Samples of this rank in a full batch; None before it is distributed, or if not known."""
        return self._micro_batch_size

    @property
    def num_samples(self) -> int:
        """Samples of all ranks in one pass, counted by reading them where they are not known.

        Raises:
            ValueError: If the dataset has no end, or was not distributed yet.
        """
        if not self._is_distributed:
            raise ValueError("Call `distribute_dataset_across_ranks` first.")
        if self._num_samples is None:
            batches = self.base_dataset
            if self._user_micro_batch_size is not None:
                # Elements may be samples although Keras would take them for batches.
                size = self._user_micro_batch_size * self.num_ranks
                parts = tnt_data.distribute(batches, 0, 1, micro_batch_size=size)
                batches = parts.map(lambda part: part.data)
            self._num_samples = self.get_number_samples(batches)
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
        """Return this rank's rows of the batches that samples are joined to. Local.

        Args:
            dataset: Yields samples.
            batch_size: Samples in a batch of all ranks.
            drop_remainder: Whether a short last batch is left out.
        """
        batches = dataset.batch(batch_size, drop_remainder)
        part = type(self)(batches, self.num_ranks, self.rank, self.shuffle_seed)
        return part.distribute_dataset_across_ranks()
