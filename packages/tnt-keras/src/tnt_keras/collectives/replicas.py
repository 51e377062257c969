"""Compare values that every rank holds: where do they differ, and on which ranks."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tnt_keras.collectives.errors import DifferentInputError
from tnt_keras.collectives.messages import allgather, allgather_json
from tnt_keras.process.rank import MASTER_RANK, get_rank

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


def require_same(
    name: str, texts: Sequence[str], sentence: str, *, missing: str = "nothing more"
) -> None:
    """Make sure that lists of texts, perhaps of different lengths, are the same. Collective.

    Args:
        name: What the texts are, the same on all ranks.
        texts: The list of this rank.
        sentence: Of the error, with {masters} and {other} for the first texts that differ, those of
            the ranks {master} and {rank}.
        missing: What a rank whose list is shorter has there.

    Raises:
        DifferentInputError: On all ranks, if they differ.
    """
    message = json.dumps(list(texts)).encode()
    if len(set(allgather(name, hashlib.sha1(message, usedforsecurity=False).digest()))) == 1:
        return
    of_ranks = allgather_json(name, list(texts))
    difference = first_difference(of_ranks)
    assert difference is not None
    index, rank = difference.index, difference.ranks[0]
    masters, other = (
        of_ranks[each][index] if index < len(of_ranks[each]) else missing
        for each in (MASTER_RANK, rank)
    )
    told = sentence.format(masters=masters, master=MASTER_RANK, other=other, rank=rank)
    raise DifferentInputError(f"Rank {get_rank()}: {told}")


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
