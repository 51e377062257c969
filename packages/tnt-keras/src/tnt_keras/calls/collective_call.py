"""Make a method a call of all ranks: it begins with a barrier, and its errors name the cause."""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import tnt_comm
from tnt_keras.calls.current_call import Call, note_failure, on_one_rank, running, user_frames_of
from tnt_keras.calls.errors import cause_of, with_text
from tnt_keras.calls.messages import barrier
from tnt_keras.process.framework import check_no_strategy
from tnt_keras.process.rank import get_rank, get_size

_Method = TypeVar("_Method", bound=Callable[..., Any])


def collective_call(
    name: str, *, is_local_alone: bool = False, compares: bool = False
) -> Callable[[_Method], _Method]:
    """Make a method a call that all ranks must make together; on one rank it stays as it is. Local.

    Ranks wait for each other when it begins, so that a rank in another call, or none, is noticed at
    once. `is_local_alone`: one rank may make it in what it runs alone (see `on_one_rank`).
    `compares`: it begins with a message of its own, in which ranks compare what they were given.
    """

    def decorate(method: _Method) -> _Method:
        @functools.wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            check_no_strategy(name)
            who = on_one_rank.get()
            if get_size() > 1 and who is not None and not is_local_alone:
                raise RuntimeError(
                    f"Rank {get_rank()}: `{name}` needs all ranks, and {who}, which calls it, runs "
                    "on this one alone: give a callback that computes with the model plain, or as "
                    "`tnt.callbacks.Callback(callback)`."
                )
            if get_size() == 1 or who is not None:
                return method(*args, **kwargs)
            handled = sys.exc_info()[1]  # such as in a `finally` of the script
            with running(name) as this, only_in_this_thread(this.name, this.caller):
                try:
                    if not compares:
                        barrier("begin")
                    return method(*args, **kwargs)
                except Exception as error:
                    reported = _error_for_user(error, this)
                    if not isinstance(reported, tnt_comm.CommError):
                        note_failure(this, reported or error)
                    if reported is None:
                        raise
                    raise reported.with_traceback(user_frames_of(error.__traceback__)) from handled

        return call  # type: ignore[return-value]

    return decorate


def _error_for_user(error: Exception, call: Call) -> Exception | None:
    """Return the error to raise instead; None for an error of the user's own code."""
    cause, reported = cause_of(error), error
    if error is not call.reported:
        if cause is None:
            return None
        reported = with_text(cause, f"{call.caller}: {call.name}: {cause}")
    if call.outer is not None:
        call.outer.reported = reported
    return reported


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
