"""`tnt.print`, progress bars and summaries: what is the same on all ranks is shown once."""

from __future__ import annotations

import builtins
from typing import Any

from tnt_keras.process.environment import settings
from tnt_keras.process.rank import is_master_rank


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
