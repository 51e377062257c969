"""What ranks tell each other outside of steps: short messages, wishes, and what must be equal."""

from __future__ import annotations

import numpy as np

import tnt_comm
from tnt_keras.process.rank import MASTER_RANK, get_rank


def exchange(message: bytes) -> list[bytes]:
    """Returns the messages of all ranks, in rank order. Collective.

    Args:
        message: The message of this rank; lengths may differ.
    """
    parts = tnt_comm.allgather(np.frombuffer(message, np.uint8))
    return [part.tobytes() for part in parts]


def any_rank(condition: bool) -> bool:
    """Returns whether `condition` holds on any rank. Collective.

    Args:
        condition: The value of this rank.
    """
    return bool(tnt_comm.allreduce(np.array([condition]), op="or")[0])


def require_same(what: str, description: str, remedy: str = "") -> None:
    """Makes sure that ranks agree before they begin something together. Collective.

    Args:
        what: Names what must be the same, for the message.
        description: What it is on this rank.
        remedy: What to do about it, for the message.

    Raises:
        ValueError: On all ranks, if the descriptions differ; shows two of them.
    """
    of_ranks = [message.decode() for message in exchange(description.encode())]
    for rank, other in enumerate(of_ranks):
        if other != of_ranks[MASTER_RANK]:
            raise ValueError(
                f"Rank {get_rank()}: {what} must be the same on all ranks, but it is "
                f"{of_ranks[MASTER_RANK]} on rank {MASTER_RANK} and {other} on rank {rank}. "
                f"{remedy}".rstrip()
            )
