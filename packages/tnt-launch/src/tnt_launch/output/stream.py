"""One stream of one rank: lines, the last of them, tracebacks, what TensorFlow logs."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable

TAIL_LINES = 200
TRACEBACK_HOLD_S = 3.0  # a process that has loaded TensorFlow takes up to two seconds to end
FAILED_HOLD_S = 15.0  # on a busy host more
MAX_LINE = 1 << 20
# The second precedes the traceback of an interrupt while Python starts.
_BEGINNINGS = (b"Traceback (most recent call last):", b"Fatal Python error: ")
_SEVERITIES = b"IWE"  # fatal errors are never hidden
_ANNOUNCEMENT = b"WARNING: All log messages before absl::InitializeLog() is called are written to "
_NO_TIME = b"0000 00:00:"  # before the log is initialised, it has no clock
_LINE = re.compile(rb"([IWE])0000 00:00:\d+\.\d+ +\d+ [\w./-]+\.(?:cc|cpp|h|hpp):\d+\] ")
# What TensorFlow calls an error where it finds no GPU, in both forms of its log.
_NO_GPU = re.compile(
    rb"(?:E0000 00:00:[\d.]+ +\d+|\d{4}-[\d-]+ [\d:.]+: E) [\w./-]+:\d+\] failed call to cuInit: "
)
_TIME = b"0123456789-:. E"
_MAX_HELD = 4096


class LineSplitter:
    """Cut bytes into lines, each ending with a newline."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Add bytes and return the lines that are complete now."""
        self._rest += data
        *lines, rest = bytes(self._rest).split(b"\n") if b"\n" in data else [bytes(self._rest)]
        if len(rest) > MAX_LINE:  # a stream without newlines must not fill the memory
            lines, rest = [*lines, rest], b""
        if lines:
            self._rest = bytearray(rest)
        return [line + b"\n" for line in lines]

    def finish(self) -> list[bytes]:
        """Return what is left as a last line."""
        return self.feed(b"\n") if self._rest else []


class Tail:
    """The last lines of a stream."""

    def __init__(self) -> None:
        self._splitter = LineSplitter()
        self._lines: deque[bytes] = deque(maxlen=TAIL_LINES)

    def feed(self, data: bytes) -> None:
        """Add bytes."""
        self._lines.extend(self._splitter.feed(data))

    def text(self) -> str:
        """Return the last lines, also one that is not complete."""
        self._lines.extend(self._splitter.finish())
        return b"".join(self._lines).decode(errors="replace")


class TracebackHold:
    """Hold a traceback back for a moment: if the rank ends because of it, the report shows it."""

    # Without this every failure would be shown several times, by each rank and by the report. A
    # traceback of a rank that goes on is shown after `TRACEBACK_HOLD_S`; one that has told of a
    # failure has longer to end.

    def __init__(self) -> None:
        self._held = bytearray()
        self._since: float | None = None
        self._is_at_line_start = True

    def feed(self, data: bytes, now: float) -> bytes:
        """Add bytes and return those that may be shown now."""
        if self._since is not None:
            self._held += data
            return b""
        begin = self._find(data)
        if data:
            self._is_at_line_start = data.endswith(b"\n")
        if begin < 0:
            return data
        self._held += data[begin:]
        self._since = now
        return data[:begin]

    def tick(self, now: float, has_failed: Callable[[], bool]) -> tuple[bytes, float | None]:
        """Return bytes that were held long enough, and when to call again."""
        if self._since is None:
            return b"", None
        for hold_s in (TRACEBACK_HOLD_S, FAILED_HOLD_S):
            if now < self._since + hold_s:
                return b"", self._since + hold_s
            if not has_failed():
                break
        return self.release(), None

    def release(self) -> bytes:
        """Return all that is held and hold nothing."""
        held = bytes(self._held)
        self._held.clear()
        self._since = None
        if held:
            self._is_at_line_start = held.endswith(b"\n")
        return held

    def _find(self, data: bytes) -> int:
        if self._is_at_line_start and data.startswith(_BEGINNINGS):
            return 0
        begins = [data.find(b"\n" + text) + 1 for text in _BEGINNINGS]
        return min(filter(None, begins), default=-1)


class TensorFlowLogFilter:
    """Remove TensorFlow's log lines below a level, as of `TF_CPP_MIN_LOG_LEVEL`, from a stream."""

    # That variable does not reach all of them: what TensorFlow's libraries log while they are
    # loaded is written whatever it says, and by every rank.

    def __init__(self, min_level: int, has_gpu: bool = True) -> None:
        self._hidden = _SEVERITIES[:min_level]
        self._has_gpu = has_gpu
        self._held = b""
        self._is_at_line_start = True

    def feed(self, data: bytes) -> bytes:
        """Add bytes and return those that are to be shown."""
        if not self._hidden and self._has_gpu:
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
        if not self._has_gpu and _NO_GPU.match(line):
            return True
        match = _LINE.match(line)
        is_hidden = match is not None and match[1] in self._hidden
        return is_hidden or bool(self._hidden and line.startswith(_ANNOUNCEMENT))

    def _may_become_hidden(self, begin: bytes) -> bool:
        """Return whether a line that begins like this may be one to hide, or is empty yet."""
        if len(begin) > _MAX_HELD:
            return False
        hidden = self._hidden if self._has_gpu else self._hidden + b"E"
        size = len(_NO_TIME)
        is_log_line = begin[:1] in hidden and _NO_TIME.startswith(begin[1 : 1 + size])
        is_dated = not self._has_gpu and begin[:1] == b"2" and not begin[:29].strip(_TIME)
        is_announcement = _ANNOUNCEMENT.startswith(begin[: len(_ANNOUNCEMENT)])
        return is_log_line or is_dated or bool(self._hidden and is_announcement)
