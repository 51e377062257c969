"""Compare values that every rank holds: where do they differ, and on which ranks."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tnt_keras.calls.errors import DifferentInputError
from tnt_keras.calls.messages import allgather, allgather_json
from tnt_keras.process.rank import MASTER_RANK, get_rank

_DIGEST_BYTES = hashlib.sha1(usedforsecurity=False).digest_size


@dataclasses.dataclass(frozen=True)
class Difference:
    """The first place at which lists of ranks differ."""

    index: int
    ranks: list[int]  # at least one


def compare_arrays(name: str, arrays: Iterable[np.ndarray[Any, Any]]) -> Difference | None:
    """Return where equally long lists of arrays differ in any bit, by checksums. Collective."""
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

    `sentence` has places {masters}, {master}, {other}, {rank} for the first texts that differ and
    whose they are; `missing` stands for an entry of a shorter list.
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
    """Return where lists of ranks, of any lengths, first differ from the master's. Pure."""
    for index, entries in enumerate(itertools.zip_longest(*of_ranks)):
        ranks = [rank for rank, entry in enumerate(entries) if entry != entries[MASTER_RANK]]
        if ranks:
            return Difference(index, ranks)
    return None


def _digest(array: np.ndarray[Any, Any]) -> bytes:
    # SHA-1 has instructions of its own on most CPUs; nobody forges the weights of other ranks.
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return hashlib.sha1(data.data, usedforsecurity=False).digest()
