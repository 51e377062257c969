"""The logger of this package: one voice for all ranks, unless asked otherwise."""

from __future__ import annotations

import logging

from tnt_keras.environment import Settings
from tnt_keras.rank import get_rank, is_master_rank

logger = logging.getLogger("tnt_keras")


def set_up_logging(settings: Settings) -> None:
    """Gives the package's logger its handler and level.

    Messages go to stderr. Ranks other than the master only log errors, unless
    `settings.log_on_all_ranks` is set. Local; idempotent.

    Args:
        settings: Level and switch are taken from here.
    """
    level = logging.getLevelName(settings.log_level)
    if not (is_master_rank() or settings.log_on_all_ranks):
        level = logging.ERROR
    logger.setLevel(level)
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(
            logging.Formatter(f"[rank {get_rank()}] %(levelname)s %(name)s: %(message)s")
        )
        logger.addHandler(handler)
        logger.propagate = False
