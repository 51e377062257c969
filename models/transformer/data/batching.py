"""From pairs of id sequences to batches that hold a number of tokens.

A batch is what all ranks take in one step. It does not depend on how many there are, and neither
does the order: every rank makes the same batches, and then either Tarantella gives rank r of n the
rows `batch[r::n]`, or the pipeline does (`num_ranks`, `rank`). Both are the same steps.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from models.transformer.special_tokens import PAD


@dataclasses.dataclass(frozen=True)
class BatchSettings:
    """Which pairs become batches of which size, in which order.

    Args:
        batch_tokens: Ids in a batch of all ranks, of each language, padding included.
        max_length: Pairs with a longer sequence, its end included, are left out.
        num_sentences: So many pairs are read, before the long ones are left out; None takes all.
        bucketed: Whether sentences of similar length are put together and padded to the longest
            length of their bucket, with more of them in a batch where they are short. Otherwise
            each batch has `batch_tokens // max_length` sentences, all padded to `max_length`.
        shuffle_seed: Decides the order, which is another one in each epoch; None keeps the order.
        drop_remainder: Whether batches that are not full are left out.
        num_ranks: Ranks that share each batch by themselves (`tnt_distribute_dataset=False`).
        rank: Which of them this one is.

    Raises:
        ValueError: If a batch has no room for a sentence, or there is no such rank.
    """

    batch_tokens: int
    max_length: int = 256
    num_sentences: int | None = None
    bucketed: bool = False
    shuffle_seed: int | None = 42
    drop_remainder: bool = False
    num_ranks: int = 1
    rank: int = 0

    def __post_init__(self) -> None:
        if self.max_length < 1:
            raise ValueError(f"Sentences need room; max_length is {self.max_length}.")
        if self.batch_tokens < self.max_length:
            raise ValueError(
                f"A batch of {self.batch_tokens} tokens has no room for a sentence of "
                f"{self.max_length}: raise the batch size or lower the maximum length."
            )
        if self.num_sentences is not None and self.num_sentences < 1:
            raise ValueError(f"At least one sentence is needed, not {self.num_sentences}.")
        if not 0 <= self.rank < self.num_ranks:
            raise ValueError(f"There is no rank {self.rank} of {self.num_ranks}.")

    @property
    def sentences_per_batch(self) -> int:
        """Sentences in a batch of fixed length."""
        return self.batch_tokens // self.max_length


class Pairs(NamedTuple):
    """Pairs of sequences by number.

    Attributes:
        longest: The longer length of each, int64 of shape `(pairs,)`.
        look_up: Returns `(inputs, targets)` of a number, int64 of shape `(length,)`. In a function
            of a dataset.
    """

    longest: np.ndarray
    look_up: Callable[[tf.Tensor], tuple[tf.Tensor, ...]]


def make_batches(
    numbers: tf.data.Dataset, pairs: Pairs, settings: BatchSettings
) -> tf.data.Dataset:
    """Join pairs to batches.

    Args:
        numbers: Yields numbers of pairs up to `max_length`, int64, in the order in which they are
            trained on.
        pairs: All that are there.
        settings: Of the batches.

    Returns:
        Yields `((inputs, targets), targets)`, int64 of shape `(sentences, padded length)`; with
        `num_ranks`, the rows of one rank, which may be none of a short batch.
    """
    batches = (bucket if settings.bucketed else pad)(numbers, pairs, settings)
    if settings.num_ranks > 1:
        own = slice(settings.rank, None, settings.num_ranks)
        batches = batches.map(lambda inputs, targets: (inputs[own], targets[own]))
    batches = batches.map(lambda inputs, targets: ((inputs, targets), targets))
    return batches.prefetch(tf.data.AUTOTUNE)


def pad(numbers: tf.data.Dataset, pairs: Pairs, settings: BatchSettings) -> tf.data.Dataset:
    """Join as many pairs to each batch, all padded to the maximum length."""
    shape = [settings.max_length]
    return numbers.map(pairs.look_up, num_parallel_calls=tf.data.AUTOTUNE).padded_batch(
        settings.sentences_per_batch,
        padded_shapes=(shape, shape),
        padding_values=(padding(), padding()),
        drop_remainder=settings.drop_remainder,
    )


def bucket(numbers: tf.data.Dataset, pairs: Pairs, settings: BatchSettings) -> tf.data.Dataset:
    """Join pairs of similar length to batches, padded to the longest length of their bucket."""
    lengths = bucket_lengths(settings.max_length)
    length_of = tf.constant(lengths, tf.int64)
    size_of = tf.constant([settings.batch_tokens // length for length in lengths], tf.int64)
    bucket_of = tf.constant(np.searchsorted(lengths, pairs.longest), tf.int64)

    def join(key: tf.Tensor, window: tf.data.Dataset) -> tf.data.Dataset:
        shape = length_of[key][tf.newaxis]
        return window.map(pairs.look_up).padded_batch(
            size_of[key],
            padded_shapes=(shape, shape),
            padding_values=(padding(), padding()),
            drop_remainder=settings.drop_remainder,
        )

    return numbers.group_by_window(
        lambda number: bucket_of[number], join, window_size_func=lambda key: size_of[key]
    )


def count_batches(lengths: np.ndarray, settings: BatchSettings) -> int:
    """Return how many batches pairs make.

    Args:
        lengths: The longer length of each pair, int64 of shape `(pairs,)`.
        settings: Of the batches.
    """
    allowed = bucket_lengths(settings.max_length) if settings.bucketed else [settings.max_length]
    num_pairs = np.bincount(np.searchsorted(allowed, lengths), minlength=len(allowed))
    sizes = settings.batch_tokens // np.array(allowed)
    full, remainder = np.divmod(num_pairs, sizes)
    return int(full.sum() if settings.drop_remainder else (full + (remainder > 0)).sum())


def bucket_lengths(max_length: int, shortest: int = 8, growth: float = 1.1) -> list[int]:
    """Return the longest length of each bucket: those of tensor2tensor, each 10 % more.

    >>> bucket_lengths(16)
    [8, 9, 10, 11, 12, 13, 14, 15, 16]
    >>> bucket_lengths(64)[-7:]
    [36, 39, 42, 46, 50, 55, 60, 64]
    """
    lengths = []
    length = shortest
    while length < max_length:
        lengths.append(length)
        length = max(length + 1, int(length * growth))
    return [*lengths, max_length]


def padding() -> tf.Tensor:
    return tf.constant(PAD, tf.int64)
