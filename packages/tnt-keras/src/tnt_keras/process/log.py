"""The logger of this package. By default only the master rank shows more than errors."""

from __future__ import annotations

import logging

from tnt_keras.process.environment import Settings
from tnt_keras.process.rank import get_rank, is_master_rank

logger = logging.getLogger("tnt_keras")
_DATA_LOGGER = "tnt_data"  # it logs the same on all ranks


def set_up_logging(settings: Settings) -> None:
    """Give the loggers of this package and of tnt-data a handler on stderr and a level. Local.

    A level or handler of the user's is kept. Only the master logs more than errors, unless asked
    for.
    """
    level = settings.log_level
    if not (is_master_rank() or settings.log_on_all_ranks):
        level = "ERROR"
    handler = logging.StreamHandler()
    handler.setFormatter(
        logging.Formatter(f"[rank {get_rank()}] %(levelname)s %(name)s: %(message)s")
    )
    for one in (logger, logging.getLogger(_DATA_LOGGER)):
        if one.level == logging.NOTSET:
            one.setLevel(level)
        if not one.handlers:
            one.addHandler(handler)
            one.propagate = False
