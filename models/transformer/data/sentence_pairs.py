"""Encoded pairs of sentences in memory.

WMT14 English-German, with 4.5 million pairs, takes one gigabyte.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from models.transformer.data.batching import BatchSettings, Pairs, count_batches, make_batches
from models.transformer.special_tokens import EOS
from models.transformer.vocabulary import Vocabulary

CHUNK = 65_536  # sentences that are encoded at a time


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
    sources: Sequence[str], targets: Sequence[str], vocabulary: Vocabulary
) -> SentencePairs:
    """Encode sentences and end each by EOS."""
    return SentencePairs(
        encode_sentences(sources, vocabulary), encode_sentences(targets, vocabulary)
    )


def encode_sentences(sentences: Sequence[str], vocabulary: Vocabulary) -> Sequences:
    """Encode sentences, some at a time: lists of ids take ten times the memory of an array."""
    parts = [
        join_sequences(vocabulary.encode_all(sentences[begin : begin + CHUNK]))
        for begin in range(0, len(sentences), CHUNK)
    ]
    return concatenate(parts)


def concatenate(parts: Iterable[Sequences]) -> Sequences:
    """Put the sequences of all parts one after the other."""
    parts = list(parts)
    ids = np.concatenate([np.zeros(0, np.int32), *(part.ids for part in parts)])
    lengths = np.concatenate([np.zeros(0, np.int64), *(part.lengths for part in parts)])
    return Sequences(ids, begins_of(lengths))


def join_sequences(sequences: Iterable[list[int]]) -> Sequences:
    """Put sequences of ids one after the other, each ended by EOS."""
    ended = [[*ids, EOS] for ids in sequences]
    ids = np.fromiter(itertools.chain.from_iterable(ended), np.int32)
    return Sequences(ids, begins_of(np.array([len(each) for each in ended], np.int64)))


def begins_of(lengths: np.ndarray) -> np.ndarray:
    """Return where sequences of these lengths begin, and where the last ends, int64."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])


def batches_of_pairs(pairs: SentencePairs, settings: BatchSettings) -> tf.data.Dataset:
    """Return the batches that settings ask for; their number is known.

    Returns:
        Yields `((inputs, targets), targets)`; see `make_batches`.

    Raises:
        ValueError: If there is no pair, none is short enough, or no batch gets full and only full
            ones count.
    """
    longest = np.maximum(pairs.inputs.lengths, pairs.targets.lengths)
    taken = longest[: settings.num_sentences]
    if not len(taken):
        raise ValueError("There is no pair of sentences of which both have text: check the files.")
    positions = np.flatnonzero(taken <= settings.max_length)
    if not len(positions):
        raise ValueError(
            f"None of {len(taken)} pairs of sentences has at most {settings.max_length} tokens: "
            f"raise the maximum length."
        )
    num_batches = count_batches(longest[positions], settings)
    if not num_batches:
        raise ValueError(
            f"{len(positions)} pairs of sentences do not fill a batch of {settings.batch_tokens} "
            f"tokens: lower the batch size, or keep batches that are not full."
        )
    numbers = tf.data.Dataset.from_tensor_slices(positions)
    if settings.shuffle_seed is not None:  # numbers of pairs and not the pairs: all of a corpus
        numbers = numbers.shuffle(len(positions), seed=settings.shuffle_seed)
    batches = make_batches(numbers, Pairs(longest, look_up_in(pairs)), settings)
    return batches.apply(tf.data.experimental.assert_cardinality(num_batches))


def look_up_in(pairs: SentencePairs) -> Callable[[tf.Tensor], tuple[tf.Tensor, ...]]:
    """Return a function of the number of a pair, that gives its two sides, int64 `(length,)`."""
    with tf.device("CPU:0"):
        sides = [(tf.constant(side.ids), tf.constant(side.begins)) for side in pairs]

    def look_up(number: tf.Tensor) -> tuple[tf.Tensor, ...]:
        return tuple(
            tf.cast(ids[begins[number] : begins[number + 1]], tf.int64) for ids, begins in sides
        )

    return look_up
