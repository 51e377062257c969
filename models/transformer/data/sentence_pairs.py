"""Encoded pairs of sentences in memory.

WMT14 English-German, with 4.5 million pairs, takes one gigabyte.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from models.transformer.data.batching import BatchSettings
from models.transformer.special_tokens import EOS
from models.transformer.vocabulary import Vocabulary


class Sequences(NamedTuple):
    """Sequences of ids, one after the other.

    Args:
        ids: int32 of shape `(ids of all sequences,)`.
        begins: int64 of shape `(number of sequences + 1,)`; sequence i is
            `ids[begins[i]:begins[i + 1]]`.
    """

    ids: np.ndarray
    begins: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.begins)

    def __getitem__(self, index: int) -> np.ndarray:  # type: ignore[override]
        return self.ids[self.begins[index] : self.begins[index + 1]]


class SentencePairs(NamedTuple):
    """Sequences of the source language and of the target language, each ended by EOS."""

    inputs: Sequences
    targets: Sequences

    @property
    def num_pairs(self) -> int:
        return len(self.inputs.begins) - 1


def encode_pairs(
    sources: Iterable[str], targets: Iterable[str], vocabulary: Vocabulary
) -> SentencePairs:
    """Encode sentences and end each by EOS."""
    return SentencePairs(
        *(join_sequences(vocabulary.encode_all(side)) for side in (sources, targets))
    )


def join_sequences(sequences: Iterable[list[int]]) -> Sequences:
    """Put sequences of ids one after the other, each ended by EOS."""
    ended = [np.array([*ids, EOS], np.int32) for ids in sequences]
    begins = np.concatenate([[0], np.cumsum([len(ids) for ids in ended], dtype=np.int64)])
    return Sequences(np.concatenate([*ended, np.zeros(0, np.int32)]), begins.astype(np.int64))


def samples_of_pairs(pairs: SentencePairs, settings: BatchSettings) -> tf.data.Dataset:
    """Return the pairs that settings ask for, in their order.

    Numbers of pairs are shuffled and not the pairs, so that the whole corpus can be.

    Returns:
        Yields `(inputs, targets)`, int64 of shape `(length,)`.

    Raises:
        ValueError: If no pair is short enough.
    """
    longest = np.maximum(pairs.inputs.lengths, pairs.targets.lengths)[: settings.num_sentences]
    positions = np.flatnonzero(longest <= settings.max_length)
    if not len(positions):
        raise ValueError(
            f"None of {len(longest)} pairs of sentences has at most {settings.max_length} tokens: "
            f"raise the maximum length."
        )
    numbers = tf.data.Dataset.from_tensor_slices(positions)
    if settings.shuffle_seed is not None:
        numbers = numbers.shuffle(len(positions), seed=settings.shuffle_seed)
    with tf.device("CPU:0"):
        sides = [(tf.constant(side.ids), tf.constant(side.begins)) for side in pairs]

    def look_up(number: tf.Tensor) -> tuple[tf.Tensor, ...]:
        return tuple(
            tf.cast(ids[begins[number] : begins[number + 1]], tf.int64) for ids, begins in sides
        )

    return numbers.map(look_up, num_parallel_calls=tf.data.AUTOTUNE)
