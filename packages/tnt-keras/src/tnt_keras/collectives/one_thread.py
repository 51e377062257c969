"""Allow collective calls of one thread at a time.

Ranks find what belongs together by the order of their calls. Two threads have no order that is the
same on all ranks, so that their calls would meet other calls there. Besides, a step replaces
methods of Keras for all threads while it is traced.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Iterator

from tnt_keras.process.rank import get_rank


@dataclasses.dataclass(frozen=True)
class _Running:
    thread: threading.Thread
    call: str


_lock = threading.Lock()
_running: _Running | None = None


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
    is_outermost = _enter(_Running(threading.current_thread(), _described(name, caller)))
    try:
        yield
    finally:
        if is_outermost:
            _leave()


def _enter(new: _Running) -> bool:
    """Note a call, and return whether it is the outermost one of its thread."""
    global _running
    with _lock:
        if _running is None:
            _running = new
            return True
        if _running.thread is new.thread:
            return False
        raise RuntimeError(
            f"Rank {get_rank()}: {new.call} was called in the thread {new.thread.name!r} while "
            f"{_running.call} is running in the thread {_running.thread.name!r}. On several ranks "
            "one thread at a time can call methods of distributed models, since all ranks must "
            "make the same calls in the same order: make one call after the other."
        )


def _leave() -> None:
    global _running
    with _lock:
        _running = None


def _described(name: str, caller: str) -> str:
    return f"`{name}` ({caller})" if caller else f"`{name}`"
