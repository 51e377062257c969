"""Remove TensorFlow's log lines from the stderr of a rank."""

# `TF_CPP_MIN_LOG_LEVEL` does not reach all of them: what TensorFlow's libraries log while they are
# loaded is written whatever it says, and by every rank.

from __future__ import annotations

import re

_SEVERITIES = b"IWE"  # fatal errors are never hidden
_ANNOUNCEMENT = b"WARNING: All log messages before absl::InitializeLog() is called are written to "
_NO_TIME = b"0000 00:00:"  # before the log is initialised, it has no clock
_LINE = re.compile(rb"([IWE])0000 00:00:\d+\.\d+ +\d+ [\w./-]+\.(?:cc|cpp|h|hpp):\d+\] ")
_MAX_HELD = 4096


class TensorFlowLogFilter:
    """Remove TensorFlow's log lines below a level, as of `TF_CPP_MIN_LOG_LEVEL`, from a stream."""

    def __init__(self, min_level: int) -> None:
        self._hidden = _SEVERITIES[:min_level]
        self._held = b""
        self._is_at_line_start = True

    def feed(self, data: bytes) -> bytes:
        """Add bytes and return those that are to be shown."""
        if not self._hidden:
            return data
        *lines, rest = (self._held + data).split(b"\n")
        self._held = b""
        shown = []
        for line in lines:
            if not (self._is_at_line_start and self._is_hidden(line)):
                shown.append(line + b"\n")
            self._is_at_line_start = True
        if self._is_at_line_start and self._may_become_hidden(rest):
            self._held = rest
        else:
            shown.append(rest)
            self._is_at_line_start = False
        return b"".join(shown)

    def finish(self) -> bytes:
        """Return what is held back at the end of the stream."""
        held, self._held = self._held, b""
        return b"" if self._is_hidden(held) else held

    def _is_hidden(self, line: bytes) -> bool:
        match = _LINE.match(line)
        return line.startswith(_ANNOUNCEMENT) or (match is not None and match[1] in self._hidden)

    def _may_become_hidden(self, begin: bytes) -> bool:
        """Return whether a line that begins like this may be one to hide, or is empty yet."""
        if len(begin) > _MAX_HELD:
            return False
        size = len(_NO_TIME)
        is_log_line = begin[:1] in self._hidden and _NO_TIME.startswith(begin[1 : 1 + size])
        return is_log_line or _ANNOUNCEMENT.startswith(begin[: len(_ANNOUNCEMENT)])
