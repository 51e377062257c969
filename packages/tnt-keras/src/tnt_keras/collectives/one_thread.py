"""Allow collective calls of one thread at a time.

Ranks match calls by their order, and that of two threads differs from rank to rank. Besides, a step
replaces methods of Keras for all threads while it is traced.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from tnt_keras.process.rank import get_rank

_lock = threading.RLock()
_running = ""  # the outermost call, in words


@contextlib.contextmanager
def only_in_this_thread(name: str, caller: str) -> Iterator[None]:
    """Refuse collective calls of other threads, not calls within calls, in a with-block. Local."""
    global _running
    call = f"`{name}` ({caller})" if caller else f"`{name}`"
    thread = threading.current_thread().name
    if not _lock.acquire(blocking=False):
        raise RuntimeError(
            f"Rank {get_rank()}: {call} was called in the thread {thread!r} while {_running}. On "
            "several ranks one thread at a time can call methods of distributed models, since all "
            "ranks must make the same calls in the same order: make one call after the other."
        )
    outer, _running = _running, _running or f"{call} is running in the thread {thread!r}"
    try:
        yield
    finally:
        _running = outer
        _lock.release()
