"""Parts of a backup that may differ from rank to rank, and are mostly the same."""

from __future__ import annotations

import hashlib
import io

import numpy as np

from tnt_keras.collectives.messages import allgather, allgather_json
from tnt_keras.model.backup.container import read_container, write_container
from tnt_keras.process.rank import MASTER_RANK, is_master_rank


def gather_parts(own: list[bytes]) -> tuple[list[list[int]], list[bytes]]:
    """Return the parts of all ranks; what is as on the master rank is not sent. Collective.

    Args:
        own: The parts of this rank.

    Returns:
        For each rank the places of its parts in a list of different ones, and this list. On other
        ranks than the master, its own parts are missing in the list.
    """
    digests = [hashlib.sha256(part).hexdigest() for part in own]
    of_ranks = allgather_json("parts", digests)
    of_master = of_ranks[MASTER_RANK]
    differing = [
        np.frombuffer(part, np.uint8)
        for number, part in enumerate(own)
        if number >= len(of_master) or digests[number] != of_master[number]
    ]
    stream = io.BytesIO()
    write_container(stream, None, differing)
    sent = allgather("differing parts", stream.getvalue())
    parts = list(own) if is_master_rank() else [b""] * len(of_master)
    places = []
    for digests_of_rank, message in zip(of_ranks, sent, strict=True):
        _, arrays = read_container(io.BytesIO(message))
        found = []
        for number, digest in enumerate(digests_of_rank):
            if number < len(of_master) and digest == of_master[number]:
                found.append(number)
            else:
                found.append(len(parts))
                parts.append(arrays.pop(0).tobytes())
        places.append(found)
    return places, parts
