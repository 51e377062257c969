"""This rank: its number, as the environment says without asking others, and what it shows."""

from __future__ import annotations

import builtins
import logging
from typing import Any

import tnt_comm
from tnt_keras.process.environment import Settings, settings

MASTER_RANK = 0

logger = logging.getLogger("tnt_keras")


def get_rank() -> int:
    """Return the number of this process, `0 <= rank < get_size()`. Local."""
    return tnt_comm.get_rank()


def get_size() -> int:
    """Return the number of ranks; 1 for a script that `python` alone has started. Local."""
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


def set_up_logging(settings: Settings) -> None:
    """Give the loggers of this package and of tnt-data a handler on stderr and a level. Local.

    A level or handler of the user's is kept. Only the master logs more than errors, unless asked
    for.
    """
    is_open = is_master_rank() or settings.log_on_all_ranks
    handler = logging.StreamHandler()
    handler.setFormatter(
        logging.Formatter(f"[rank {get_rank()}] %(levelname)s %(name)s: %(message)s")
    )
    for one in (logger, logging.getLogger("tnt_data")):  # which logs the same on all ranks
        if one.level == logging.NOTSET:
            one.setLevel(settings.log_level if is_open else "ERROR")
        if not one.handlers:
            one.addHandler(handler)
            one.propagate = False


def is_shown() -> bool:
    """Return whether this rank shows what is the same on all ranks. Local."""
    return is_master_rank() or settings().output_on_all_ranks


def verbosity(verbose: Any) -> Any:
    """Return the `verbose` of a method of Keras on this rank. Local."""
    return verbose if is_shown() else 0


def print(*values: Any, **options: Any) -> None:
    """Print on the master rank, or on all ranks with `--output-on-all-devices`. Local.

    Args:
        *values: As for Python's `print`.
        **options: As for Python's `print`.
    """
    if is_shown():
        builtins.print(*values, **options)
