"""From the rendezvous until all have joined: who ends or fails before that ends the others."""

from __future__ import annotations

import _thread
import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator

from tnt_comm.start.rendezvous import Loss, Rendezvous, last_words

_GRACE_S = 3.0  # in which the main thread may come to its end by itself
_GRACE_IF_WOKEN_S = 30.0  # the same where it will, however busy the host is
_LAST_WORDS_S = 2.0
_FAILURE = 1  # exit code
_WAKE = signal.SIGURG  # by default it does nothing, so one that comes late harms nobody


@contextlib.contextmanager
def _interruptible() -> Iterator[signal.Signals]:
    """Give a signal that raises KeyboardInterrupt in the main thread meanwhile, as Ctrl-C does.

    Not Ctrl-C's own: shells start what is behind `&` in a script with that one ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield signal.SIGINT  # only the main thread may set another one up
        return
    before = signal.signal(_WAKE, signal.default_int_handler)
    try:
        yield _WAKE
    finally:
        signal.signal(_WAKE, before if before is not None else signal.SIG_DFL)


class JoinWatch:
    """A thread that watches the others as long as not all of them have joined the job."""

    def __init__(self, rendezvous: Rendezvous, rank: int) -> None:
        """Begin; `rank` is that of this process in the job."""
        self._rendezvous, self._rank = rendezvous, rank
        self._loss: Loss | None = None
        self._is_joining = False
        self._wake = signal.SIGINT
        self._has_joined = False
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="tnt-watch", daemon=True)
        self._thread.start()

    @contextlib.contextmanager
    def joining(self) -> Iterator[None]:
        """Let a loss end what is done inside, in the main thread: as an error that tells it."""
        with _interruptible() as self._wake:
            self._is_joining = self._rendezvous.is_joining = True
            try:
                if self._loss is not None:
                    raise self._loss.error()
                yield
                self._has_joined = True
            except KeyboardInterrupt:
                if self._loss is not None:
                    raise self._loss.error() from None
                raise
            finally:
                self._is_joining = False

    def end(self, text: str = "") -> None:
        """Tell the others that this process ends: because of a failure, or having done its work."""
        if text or not self._has_joined:
            told = text or f"rank {self._rank} has ended without joining the job."
            self._rendezvous.last_words = last_words(told, is_orderly=not text)
        self._is_over.set()
        self._thread.join(_LAST_WORDS_S)

    def note_place(self, place: str) -> None:
        """Tell the others where this process is in the user's script. Local."""
        self._rendezvous.places[self._rank] = place

    def place_of(self, rank: int) -> str:
        """Return where a rank is that has not joined, "" if that is not known. Local."""
        return self._rendezvous.places.get(rank, "")

    def _watch(self) -> None:
        self._loss = self._rendezvous.watch(lambda: self._has_joined)
        if self._loss is None or self._is_over.is_set():
            return
        grace_s = _GRACE_S
        if self._is_joining:
            _thread.interrupt_main(self._wake)
            grace_s = _GRACE_IF_WOKEN_S
        elif self._loss.is_orderly:
            return
        if not self._is_over.wait(grace_s) and not self._has_joined:
            self._end_process(self._loss)

    def _end_process(self, loss: Loss) -> None:
        """End a program that computes, or waits, and does not look at other ranks."""
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            host = socket.gethostname()
            sys.stderr.write(
                f"tarantella: rank {self._rank} on {host} has failed, a consequence of rank "
                f"{loss.rank}: {loss.text}\n"
            )
            sys.stderr.flush()
        os._exit(_FAILURE)
