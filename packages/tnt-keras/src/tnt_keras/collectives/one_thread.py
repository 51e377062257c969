"""Allow collective calls of one thread at a time.

Ranks find what belongs together by the order of their calls. Two threads have no order that is the
same on all ranks, so that their calls would meet other calls there. Besides, a step replaces
methods of Keras for all threads while it is traced.
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
    """Refuse collective calls of other threads inside a with-block. Local.

    Calls within calls, such as `evaluate` in a callback of `fit`, belong to the same thread and are
    allowed.

    Args:
        name: Of the call that begins: "fit".
        caller: The user's line that made it, "" if not known.

    Raises:
        RuntimeError: If a call of another thread is running; names both.
    """
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
