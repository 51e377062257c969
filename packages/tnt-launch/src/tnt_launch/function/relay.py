"""Pass the output of a launcher on to `sys.stdout` and `sys.stderr`, which may be a notebook's."""

from __future__ import annotations

import codecs
import contextlib
import os
import selectors
import sys
from typing import Literal

READ_SIZE = 1 << 16


class Relay(contextlib.AbstractContextManager["Relay"]):
    """Write in the thread that asks for it, whose output a notebook shows; a context manager."""

    def __init__(self, out: int, err: int, message: int) -> None:
        """Read from three pipes; the end of the third is that of the job."""
        # The others may stay open, if a process that a rank has started is not part of the job.
        self.is_over = False  # the job is, and all its output is written
        self.message = b""  # what has come through the pipe that is the launcher's alone
        self._message_fd = message
        self._writers = {out: _Writer("stdout"), err: _Writer("stderr")}
        self._is_muted = False
        self._selector = selectors.DefaultSelector()
        for pipe in (out, err, message):
            os.set_blocking(pipe, False)
            self._selector.register(pipe, selectors.EVENT_READ)

    def __exit__(self, *_: object) -> None:
        self._selector.close()

    def mute(self) -> None:
        """Write nothing any more, but go on reading."""
        self._is_muted = True

    def advance(self) -> None:
        """Wait for the next output and write it."""
        ready = {key.fd for key, _ in self._selector.select()}
        has_ended = self._message_fd in ready and not self._read_message()
        # What the ranks have written is in the pipes by now.
        for fd in tuple(self._writers) if has_ended else ready - {self._message_fd}:
            while self._pass_on(fd) and has_ended:
                pass
        self.is_over = has_ended

    def _read_message(self) -> bool:
        data = os.read(self._message_fd, READ_SIZE)
        self.message += data
        return bool(data)

    def _pass_on(self, fd: int) -> bool:
        """Read once, and return whether there may be more at once."""
        try:
            data = os.read(fd, READ_SIZE)
        except BlockingIOError:
            return False
        writer = self._writers[fd]
        if not data:
            self._selector.unregister(fd)
            del self._writers[fd]
        if not self._is_muted:
            writer.write(data)
        return bool(data)


class _Writer:
    """Writes bytes to a stream of text, whatever the stream is at that time."""

    def __init__(self, name: Literal["stdout", "stderr"]) -> None:
        self._name = name
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def write(self, data: bytes) -> None:
        text = self._decoder.decode(data, final=not data)
        stream = getattr(sys, self._name)
        if text and stream is not None:
            stream.write(text)
            stream.flush()
