"""Random ids instead of sentences, to measure speed where no data are."""

from __future__ import annotations

import numpy as np

from models.transformer.data.sentence_pairs import SentencePairs, Sequences, begins_of
from models.transformer.special_tokens import EOS


def make_synthetic_pairs(
    num_pairs: int, vocab_size: int, max_length: int, seed: int = 42
) -> SentencePairs:
    """Draw pairs of sequences with unequal lengths between 1 and `max_length`, their end included.

    Args:
        num_pairs: Number of pairs.
        vocab_size: Ids are below it, and above those of padding and end.
        max_length: The longest length.
        seed: The same pairs for the same seed, on every rank.
    """
    random = np.random.default_rng(seed)
    return SentencePairs(
        *(draw_sequences(random, num_pairs, vocab_size, max_length) for _ in range(2))
    )


def draw_sequences(
    random: np.random.Generator, number: int, vocab_size: int, max_length: int
) -> Sequences:
    lengths = random.integers(1, max_length, number, endpoint=True)
    begins = begins_of(lengths)
    ids = random.integers(EOS + 1, vocab_size, begins[-1], dtype=np.int32)
    ids[begins[1:] - 1] = EOS
    return Sequences(ids, begins)
