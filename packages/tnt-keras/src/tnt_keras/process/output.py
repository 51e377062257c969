"""What this rank shows: its log, `tnt.print`, progress bars and summaries."""

from __future__ import annotations

import builtins
import logging
from typing import Any

from tnt_keras.process.environment import Settings, settings
from tnt_keras.process.rank import get_rank, is_master_rank

logger = logging.getLogger("tnt_keras")


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
