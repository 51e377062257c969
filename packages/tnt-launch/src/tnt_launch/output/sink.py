"""Write to stdout and stderr of the launcher without blocking and without mixing lines."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections import deque

from tnt_launch.log import LOGGER

PIPE_CHUNK = 4096  # what a pipe that is ready takes without blocking (PIPE_BUF)
FILE_CHUNK = 1 << 16
HOLD_S = 1.0


class Sink:
    """Bytes on their way to one file descriptor, written when it is ready. Not thread-safe."""

    # The descriptor stays in blocking mode, since other processes share it: instead, at most as
    # much is written as a ready pipe is known to take.

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.num_pending = 0
        self._parts: deque[bytes] = deque()
        is_file = stat.S_ISREG(os.fstat(fd).st_mode)  # a file takes any amount
        self._chunk = FILE_CHUNK if is_file else PIPE_CHUNK
        self._has_told = False

    def put(self, data: bytes) -> None:
        """Append bytes; they are written by later calls of `advance`."""
        if data:
            self._parts.append(data)
            self.num_pending += len(data)

    def advance(self) -> None:
        """Write one piece; call it when the descriptor is ready."""
        if not self._parts:
            return
        part = self._parts.popleft()
        while self._parts and len(part) < self._chunk:
            part += self._parts.popleft()
        try:
            count = os.write(self.fd, part[: self._chunk])
        except BlockingIOError:
            count = 0
        except OSError as error:
            # That must not end a training.
            self._parts.clear()
            self.num_pending = 0
            self._tell_of(error)
            return
        self.num_pending -= count
        if count < len(part):
            self._parts.appendleft(part[count:])

    def _tell_of(self, error: OSError) -> None:
        """Warn once that output is lost, but not where nobody reads on, as in `| head`."""
        if error.errno == errno.EPIPE or self._has_told:
            return
        self._has_told = True
        name = {1: "stdout", 2: "stderr"}.get(self.fd, f"descriptor {self.fd}")
        LOGGER.warning(
            "%s cannot be written, and what ranks write to it is lost: %s [output-lost]",
            name,
            error,
        )


class LineMixer:
    """Pass one stream on unchanged and insert whole lines of others between its lines."""

    # Lines of others wait while the passing stream is in the middle of a line, but at most
    # `HOLD_S`: then that line is broken, so that a progress bar does not hide messages.

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self._is_in_line = False
        self._held: list[bytes] = []
        self._held_since = 0.0

    def pass_through(self, data: bytes) -> None:
        """Write bytes of the passing stream at once and unchanged."""
        if not data:
            return
        complete, newline, rest = data.rpartition(b"\n")
        self.sink.put(complete + newline)
        if newline:
            self._is_in_line = False
            self._release()
        self.sink.put(rest)
        self._is_in_line = self._is_in_line or bool(rest)

    def put_line(self, line: bytes, now: float) -> None:
        """Write a whole line of another stream as soon as it does not cut a line."""
        if not self._is_in_line:
            self.sink.put(line)
            return
        if not self._held:
            self._held_since = now
        self._held.append(line)

    def tick(self, now: float) -> float | None:
        """Write lines that have waited long enough; return when to call again, if that is known."""
        if not self._held:
            return None
        if now < self._held_since + HOLD_S:
            return self._held_since + HOLD_S
        if self.sink.num_pending > 0:
            return None  # the ranks may not be read meanwhile: the rest of the line may still come
        self.break_line()
        return None

    def break_line(self) -> None:
        """End an unfinished line of the passing stream if lines of others wait."""
        if self._held and self._is_in_line:
            self.sink.put(b"\n")
            self._is_in_line = False
        self._release()

    def _release(self) -> None:
        for line in self._held:
            self.sink.put(line)
        self._held.clear()


def is_same_file(first: int, second: int) -> bool:
    """Return whether two descriptors write to the same place, as after `2>&1`."""
    with contextlib.suppress(OSError):
        return os.path.samestat(os.fstat(first), os.fstat(second))
    return False
