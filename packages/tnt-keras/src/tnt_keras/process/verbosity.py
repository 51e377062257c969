"""Decide whether this rank shows progress bars and summaries."""

from __future__ import annotations

from typing import Any

from tnt_keras.process.environment import settings
from tnt_keras.process.rank import is_master_rank


def is_shown() -> bool:
    """Return whether this rank shows what is the same on all ranks. Local."""
    return is_master_rank() or settings().output_on_all_ranks


def verbosity(verbose: Any) -> Any:
    """Return the `verbose` of a method of Keras on this rank. Local.

    Args:
        verbose: What the user asked for.
    """
    return verbose if is_shown() else 0
