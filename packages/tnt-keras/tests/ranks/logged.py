"""What a rank logs."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator


@contextlib.contextmanager
def logged(level: int | None = None) -> Iterator[list[str]]:
    """Collect what this rank logs inside a with-block, by default the warnings that it shows."""
    messages: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    logger, handler = logging.getLogger("tnt_keras"), Collect(level or logging.WARNING)
    before = logger.level
    logger.addHandler(handler)
    if level is not None:
        logger.setLevel(level)
    try:
        yield messages
    finally:
        logger.removeHandler(handler)
        if level is not None:  # else a model may have set it up in the meantime
            logger.setLevel(before)
