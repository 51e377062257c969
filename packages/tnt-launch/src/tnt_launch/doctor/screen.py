"""Where the table is shown, with a line of progress below it on a terminal."""

from __future__ import annotations

import os
import shutil
import sys

_ERASE = "\r\x1b[K"


class Screen:
    """The standard output of this process; its width is `None` for a pipe or a file."""

    def __init__(self) -> None:
        self._is_terminal = sys.stdout.isatty()
        self.width = shutil.get_terminal_size().columns if self._is_terminal else None
        self.has_colours = (
            self._is_terminal
            and not os.environ.get("NO_COLOR")
            and os.environ.get("TERM", "dumb") != "dumb"
        )
        self._progress = ""

    def show(self, text: str) -> None:
        """Show whole lines."""
        progress = self._progress
        self.clear()
        encoding = sys.stdout.encoding or "utf-8"
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
        self.progress(progress)

    def progress(self, text: str) -> None:
        """Replace the line that says what goes on; it is shown on a terminal alone."""
        if not self._is_terminal or text == self._progress:
            return
        self._progress = text
        sys.stdout.write(_ERASE + text[: (self.width or 80) - 1])
        sys.stdout.flush()

    def clear(self) -> None:
        """Remove the line that says what goes on."""
        if self._progress:
            self.progress("")
