"""Compare values that every rank holds: where do they differ, and on which ranks."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tnt_keras.collectives.messages import allgather
from tnt_keras.process.rank import MASTER_RANK

_DIGEST_BYTES = hashlib.sha1(usedforsecurity=False).digest_size


@dataclasses.dataclass(frozen=True)
class Difference:
    """The first place at which lists of ranks differ.

    Attributes:
        index: Of the place in the lists.
        ranks: The ranks whose entry is not that of the master rank; at least one.
    """

    index: int
    ranks: list[int]


def compare_arrays(name: str, arrays: Iterable[np.ndarray[Any, Any]]) -> Difference | None:
    """Compare lists of arrays bit by bit, through checksums. Collective.

    Args:
        name: What the arrays are, the same on all ranks.
        arrays: The list of this rank; all have equally many.

    Returns:
        The first difference, None if the lists of all ranks are the same.
    """
    digests = b"".join(_digest(array) for array in arrays)
    return first_difference(
        [
            [message[i : i + _DIGEST_BYTES] for i in range(0, len(message), _DIGEST_BYTES)]
            for message in allgather(name, digests)
        ]
    )


@dataclasses.dataclass(frozen=True)
class DifferentTexts:
    """The first place at which texts of ranks differ.

    Attributes:
        of_master_rank: What the master rank has there.
        rank: The first rank that has something else there.
        of_rank: What it has.
    """

    of_master_rank: str
    rank: int
    of_rank: str


def compare_texts(name: str, texts: Sequence[str], *, missing: str) -> DifferentTexts | None:
    """Compare lists of texts, which may be of different lengths. Collective.

    Args:
        name: What the texts are, the same on all ranks.
        texts: The list of this rank.
        missing: What a rank whose list is shorter has there, for messages.

    Returns:
        The first difference, None if the lists of all ranks are the same.
    """
    message = json.dumps(list(texts)).encode()
    digests = allgather(name, hashlib.sha1(message, usedforsecurity=False).digest())
    if len(set(digests)) == 1:
        return None
    of_ranks = [json.loads(text) for text in allgather(name, message)]
    difference = first_difference(of_ranks)
    if difference is None:
        return None
    index, rank = difference.index, difference.ranks[0]
    of_master_rank, of_rank = (
        of_ranks[each][index] if index < len(of_ranks[each]) else missing
        for each in (MASTER_RANK, rank)
    )
    return DifferentTexts(of_master_rank, rank, of_rank)


def first_difference(of_ranks: Sequence[Sequence[Any]]) -> Difference | None:
    """Return where lists of ranks first differ from that of the master rank. Pure.

    Args:
        of_ranks: The lists, in rank order. They may be of different lengths.

    Returns:
        None if all are equal.
    """
    for index, entries in enumerate(itertools.zip_longest(*of_ranks)):
        ranks = [rank for rank, entry in enumerate(entries) if entry != entries[MASTER_RANK]]
        if ranks:
            return Difference(index, ranks)
    return None


def _digest(array: np.ndarray[Any, Any]) -> bytes:
    # SHA-1 has instructions of its own on most CPUs; nobody forges the weights of other ranks.
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return hashlib.sha1(data.data, usedforsecurity=False).digest()
