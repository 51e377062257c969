"""Translate many sentences: in batches of similar length, shared among ranks.

The batches are the same however many ranks share them, so that the translations are too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from models.transformer.special_tokens import EOS, PAD
from models.transformer.vocabulary import Vocabulary

Decode = Callable[[np.ndarray], np.ndarray]
"""Turns inputs, int64 of shape `(batch, length)`, padded, into outputs of the same kind."""

Gather = Callable[[list[str]], list[list[str]]]
"""Gives every rank what all of them have, in the order of ranks: `tnt.allgather_object`."""

LINE_ENDS = {ord(character): " " for character in "\r\n"}


class DecodingBatch(NamedTuple):
    """Sentences that are translated together.

    Args:
        positions: Where each stands in the text.
        inputs: int64 of shape `(batch, length)`.
    """

    positions: list[int]
    inputs: np.ndarray


def translate(
    sentences: Sequence[str],
    vocabulary: Vocabulary,
    decode: Decode,
    *,
    batch_size: int = 32,
    max_length: int = 97,
    rank: int = 0,
    num_ranks: int = 1,
    gather: Gather | None = None,
) -> list[str]:
    """Translate sentences. Collective if ranks share them.

    Args:
        sentences: Of the source language.
        vocabulary: Of both languages.
        decode: The model.
        batch_size: Sentences in a batch; the last batch is filled up with its last sentence.
        max_length: Inputs are padded to it; a batch with a longer sentence, to the longest.
        rank: Of the caller.
        num_ranks: Each rank translates every n-th batch.
        gather: Exchanges what ranks have translated; needed on several ranks.

    Returns:
        The translations, in the order of the sentences, on every rank.
    """
    batches = make_decoding_batches(vocabulary.encode_all(sentences), batch_size, max_length)
    own = [
        translation
        for batch in batches[rank::num_ranks]
        for translation in translate_batch(batch, vocabulary, decode)
    ]
    parts = [own] if num_ranks == 1 else require(gather)(own)
    translations = [""] * len(sentences)
    for of_rank, part in enumerate(parts):
        positions = [each for batch in batches[of_rank::num_ranks] for each in batch.positions]
        for position, translation in zip(positions, part, strict=True):
            translations[position] = translation
    return translations


def make_decoding_batches(
    sequences: Sequence[list[int]], batch_size: int, max_length: int
) -> list[DecodingBatch]:
    """Put sentences of similar length together, the longest first, each ended by EOS."""
    order = sorted(range(len(sequences)), key=lambda position: -len(sequences[position]))
    return [
        join_inputs(sequences, order[begin : begin + batch_size], batch_size, max_length)
        for begin in range(0, len(order), batch_size)
    ]


def join_inputs(
    sequences: Sequence[list[int]], positions: list[int], batch_size: int, max_length: int
) -> DecodingBatch:
    rows = [[*sequences[position], EOS] for position in positions]
    rows += rows[-1:] * (batch_size - len(rows))  # one shape for all batches: one trace
    inputs = np.full((batch_size, max(max_length, *map(len, rows))), PAD, np.int64)
    for row, ids in zip(inputs, rows, strict=True):
        row[: len(ids)] = ids
    return DecodingBatch(positions, inputs)


def translate_batch(batch: DecodingBatch, vocabulary: Vocabulary, decode: Decode) -> list[str]:
    """Return one line for each sentence of a batch."""
    outputs = np.asarray(decode(batch.inputs))[: len(batch.positions)]
    translations = [
        vocabulary.decode(known_ids(cut_at_end(row), vocabulary)) for row in outputs.tolist()
    ]
    return [translation.translate(LINE_ENDS) for translation in translations]


def cut_at_end(ids: list[int]) -> list[int]:
    """Return what is before the first EOS."""
    return ids[: ids.index(EOS)] if EOS in ids else ids


def known_ids(ids: list[int], vocabulary: Vocabulary) -> list[int]:
    """Leave out ids without a subword, which a larger `--vocab_size` gives a model."""
    return [each for each in ids if each < vocabulary.size]


def require(gather: Gather | None) -> Gather:
    if gather is None:
        raise ValueError("Several ranks need `gather` to exchange what each has translated.")
    return gather
