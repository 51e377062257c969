"""Rank and size, as the environment says; no other rank is asked."""

from __future__ import annotations

import tnt_comm

MASTER_RANK = 0


def get_rank() -> int:
    """Return the number of this process, `0 <= rank < get_size()`. Local."""
    return tnt_comm.get_rank()


def get_size() -> int:
    """Return the number of ranks; 1 without the launcher. Local."""
    return tnt_comm.get_size()


def get_local_rank() -> int:
    """Return the number of this process among the ranks of its host. Local."""
    return tnt_comm.get_local_rank()


def get_local_size() -> int:
    """Return the number of ranks on this host. Local."""
    return tnt_comm.get_local_size()


def get_master_rank() -> int:
    """Return the rank that writes files and output: 0, on the launching host. Local."""
    return MASTER_RANK


def is_master_rank() -> bool:
    """Return whether this process is the master rank. Local.

    Code that only one rank must run (writing a file of one's own, say) is guarded with it. Calls
    of a distributed model's methods must *not* be guarded: all ranks take part in them.
    """
    return get_rank() == MASTER_RANK


def get_group_master_rank(group: tnt_comm.Group) -> int:
    """Return the rank that writes what a group computes: the first of its members. Local.

    Args:
        group: Some ranks.

    Returns:
        Its number among all ranks.
    """
    return group.ranks[0]


def is_group_master_rank(group: tnt_comm.Group) -> bool:
    """Return whether this process is the master rank of a group. Local.

    Args:
        group: Some ranks.
    """
    return get_rank() == get_group_master_rank(group)
