"""Messages of the launcher on stderr."""

from __future__ import annotations

import contextlib
import logging
import os
import select
from collections.abc import Callable


class LaunchHandler(logging.Handler):
    """Write each message as one line through `write_line`, which a running job replaces."""

    # While ranks run, their lines and ours share one stderr: the job knows when a line is over.

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("tarantella: %(levelname)s: %(message)s"))
        self.write_line: Callable[[bytes], None] = write_to_stderr

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record as one line."""
        text = self.format(record) + "\n"
        self.write_line(text.encode(errors="backslashreplace"))


def write_to_stderr(line: bytes) -> None:
    """Write bytes to stderr at once; a terminal that is gone is not an error."""
    with contextlib.suppress(OSError):
        while line:
            try:
                line = line[os.write(2, line) :]
            except BlockingIOError:  # another process may have changed the mode we share
                select.select([], [2], [])


def say(text: str) -> None:
    """Write what a user must know at any level of the log, as one line."""
    write_to_stderr(f"tarantella: {text}\n".encode(errors="backslashreplace"))


HANDLER = LaunchHandler()
LOGGER = logging.getLogger("tnt_launch")


def configure_logging(level: str) -> logging.Logger:
    """Let the logger `tnt_launch` write to stderr from `level` on; may be called again."""
    LOGGER.setLevel(level)
    LOGGER.propagate = False
    if HANDLER not in LOGGER.handlers:
        LOGGER.addHandler(HANDLER)
    return LOGGER
