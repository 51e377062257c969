"""One rank's error is every rank's: what ranks do together succeeds on all, or raises on all.

So do calls of all ranks, which begin with a barrier and whose errors name the cause; exchanges of
Python objects; and code that the master rank runs before the others.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import json
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np

import tnt_comm
from tnt_comm.failure import printable
from tnt_keras.calls.current_call import (
    Call,
    calling_logger,
    current_call,
    holding,
    note_failure,
    on_one_rank,
    running,
    user_frames_of,
    user_line,
)
from tnt_keras.calls.errors import cause_of, of_other_rank, with_text
from tnt_keras.calls.messages import allgather, barrier
from tnt_keras.process.framework import check_no_strategy
from tnt_keras.process.rank import MASTER_RANK, get_rank, get_size, is_master_rank

_Method = TypeVar("_Method", bound=Callable[..., Any])
_Result = TypeVar("_Result")
_MADE_OF_TEXT = (OSError, ValueError, TypeError, RuntimeError, LookupError, AttributeError)
_HAS_RESULT, _HAS_ERROR = b"+", b"-"
_NOT_SENT = (
    "the object of rank {rank} cannot be sent to other ranks, since it cannot be pickled: "
    "{error}. Send the values that it consists of; functions must have a name in a module."
)
_NOT_LOADED = (
    "rank {rank} cannot unpickle the object: {error}. Send the values that it consists of, or "
    "define its class in a module that every rank can import."
)
_NEEDS_ALL = (
    "Rank {rank}: `{name}` needs all ranks, but {who}, which calls it, runs only on this one: "
    "pass a callback that computes with the model as it is, or as "
    "`tnt.callbacks.Callback(callback)`."
)


def collective_call(
    name: str, *, is_local_alone: bool = False, compares: bool = False
) -> Callable[[_Method], _Method]:
    """Make a method a call that all ranks must make together; on one rank it stays as it is. Local.

    Ranks wait for each other when it begins, so that a rank in another call, or none, is noticed at
    once. `is_local_alone`: one rank may make it in what it runs alone (see `on_one_rank`), and so
    may the code of a logger's package. `compares`: it begins with a message of its own, in which
    ranks compare what they were given.
    """

    def decorate(method: _Method) -> _Method:
        @functools.wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            check_no_strategy(name)
            if get_size() == 1:
                return method(*args, **kwargs)
            who = on_one_rank.get() or _logger_alone(is_local_alone)
            if who is not None:
                if not is_local_alone:
                    raise RuntimeError(_NEEDS_ALL.format(rank=get_rank(), name=name, who=who))
                with holding(on_one_rank, who):
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


def _logger_alone(is_local_alone: bool) -> str | None:
    """Return which logger's package makes a call that other ranks need not make, None for none.

    It saves where it logs; what else it calls inside a `fit` is for its own logs, too, as when
    MLflow's autolog predicts some samples to describe the model.
    """
    return calling_logger() if is_local_alone or current_call() is not None else None


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
            "several ranks, only one thread at a time can call methods of distributed models, "
            "since all ranks must make the same calls in the same order: make one call after "
            "another."
        )
    outer, _running = _running, _running or f"{call} is running in the thread {thread!r}"
    try:
        yield
    finally:
        _running = outer
        _lock.release()


def together(
    what: str, action: Callable[[], _Result], *, subject: str = "", knows_more: int | None = None
) -> _Result:
    """Return what an action returns here, when every rank has done it. Collective.

    The action must not wait for other ranks. A rank on which it raises an error raises that, unless
    the rank that `knows_more` has one too; others an `OtherRankError` that names the rank, of the
    same class if that is Python's and made of a message, else an `OSError`. `what` is a verb, the
    same on all ranks ("read"); errors say the `subject` behind it, which may differ, as a path may.
    """
    if get_size() == 1:
        return action()
    result: list[_Result] = []

    def message() -> bytes:
        result.append(action())
        return b""

    gather(f"end of {what}", message, f"could not {what} {subject}".rstrip(), knows_more=knows_more)
    return result[0]


def gather(
    label: str,
    make: Callable[[], bytes],
    failed: str,
    *,
    kind: type[Exception] | None = None,
    knows_more: int | None = None,
) -> list[bytes]:
    """Return what each rank makes, in rank order; errors of one are those of all. Collective.

    One message. `failed` follows "rank 1" in errors: "could not read data.csv". With a `kind` every
    rank raises that, and `failed` is the whole sentence, with places {rank} and {error}.
    """
    error = None
    try:
        message = _HAS_RESULT + make()
    except Exception as failure:  # of any class, and the other ranks wait for this one
        error, message = failure, _HAS_ERROR + told(failure)
    of_ranks = allgather(label, message)
    failures = {r: each[1:] for r, each in enumerate(of_ranks) if each[:1] == _HAS_ERROR}
    if error is not None and kind is None and knows_more not in failures:
        raise error
    for rank, failure_of_rank in failures.items():
        if kind is None:
            raise error_of(rank, failure_of_rank, failed)
        name, text = json.loads(failure_of_rank)
        sentence = f"Rank {get_rank()}: {failed.format(rank=rank, error=f'{name}: {text}')}"
        raise (of_other_rank(kind, rank, sentence) if error is None else kind(sentence)) from error
    return [each[1:] for each in of_ranks]


def told(error: Exception) -> bytes:
    """Return an error as `error_of` reads it. Pure."""
    return json.dumps([type(error).__name__, printable(str(error))]).encode()


def error_of(rank: int, message: bytes, failed: str) -> Exception:
    """Return the error of another rank as this one raises it. Local."""
    name, text = json.loads(message)
    return of_other_rank(
        _class_of(name), rank, f"Rank {get_rank()}: rank {rank} {failed}: {name}: {text}"
    )


def _class_of(name: str) -> type[Exception]:
    """Return the class of that name, if it is one of Python itself that is made of a message."""
    named = getattr(builtins, name, OSError)
    is_made_of_text = isinstance(named, type) and issubclass(named, _MADE_OF_TEXT)
    return named if is_made_of_text and not issubclass(named, UnicodeError) else OSError


@collective_call("allgather_object")
def allgather_object(value: Any) -> list[Any]:
    """Return the objects of all ranks, in rank order. Collective.

    Args:
        value: Any object that can be pickled, of any size, including None.

    Raises:
        TypeError: On all ranks, if the object of a rank cannot be pickled or unpickled; names the
            rank.
        tnt_comm.CommError: If another rank is lost, late, or in another call.
    """
    if get_size() == 1:
        return [value]
    return _loaded(gather("object", lambda: pickle.dumps(value), _NOT_SENT, kind=TypeError))


@collective_call("broadcast_object")
def broadcast_object(value: Any = None, root: int = MASTER_RANK) -> Any:
    """Return the object of one rank on all ranks. Collective.

        settings = tnt.broadcast_object(read_settings() if tnt.is_master_rank() else None)

    Args:
        value: Any object that can be pickled; only that of the root has an effect.
        root: The rank whose object it is, the same on all ranks.

    Raises:
        ValueError: If there is no such rank.
        TypeError: On all ranks, if the object cannot be pickled, or a rank cannot unpickle it;
            names the rank.
        tnt_comm.CommError: If another rank is lost, late, or in another call.
    """
    if not 0 <= root < get_size():
        raise ValueError(f"`root` must be a rank from 0 to {get_size() - 1}. Received: {root}.")
    if get_size() == 1:
        return value
    is_root = get_rank() == root

    def own() -> bytes:
        return pickle.dumps(value) if is_root else b""

    of_ranks = gather(f"object of rank {root}", own, _NOT_SENT, kind=TypeError)
    loaded = _loaded([] if is_root else [of_ranks[root]])
    return value if is_root else loaded[0]


def _loaded(pickles: list[bytes]) -> list[Any]:
    objects: list[Any] = []

    def load() -> bytes:
        objects.extend(map(pickle.loads, pickles))
        return b""

    gather("object, loaded", load, _NOT_LOADED, kind=TypeError)
    return objects


@contextlib.contextmanager
def master_first(timeout_s: float = 3600.0) -> Iterator[None]:
    """Let the master rank run a with-block before the others do. Collective.

    For example::

        with tnt.master_first():
            path = keras.utils.get_file(...)   # the others find it in the cache

    Args:
        timeout_s: How long the others wait for the master rank, in seconds.

    Raises:
        RuntimeError: On the other ranks, if the block failed on the master rank; says why.
        tnt_comm.CommError: If another rank is lost, late, or in another call.
    """
    if get_size() == 1:
        yield
        return
    caller, failure = user_line(), ""

    def failure_of_master() -> str:
        own = np.frombuffer(failure.encode(), np.uint8)
        tnt_comm.init(timeout_s)
        of_all = tnt_comm.allgather(own, timeout_s=timeout_s, label="master_first", caller=caller)
        return of_all[MASTER_RANK].tobytes().decode()

    if is_master_rank():
        try:
            yield
        except BaseException as error:
            failure = f"{type(error).__name__}: {error}"
            raise
        finally:
            failure_of_master()
        return
    told_by_master = failure_of_master()
    if told_by_master:
        who = f"{caller}: Rank {get_rank()}: rank {MASTER_RANK}"
        text = f"{who} failed in `tnt.master_first()`: {told_by_master}"
        raise of_other_rank(RuntimeError, MASTER_RANK, text)
    yield
