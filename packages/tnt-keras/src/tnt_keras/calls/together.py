"""One rank's error is every rank's: what ranks do together succeeds on all, or raises on all."""

from __future__ import annotations

import builtins
import json
from collections.abc import Callable
from typing import TypeVar

from tnt_comm.failure import printable
from tnt_keras.calls.errors import of_other_rank
from tnt_keras.calls.messages import allgather
from tnt_keras.process.rank import get_rank, get_size

_Result = TypeVar("_Result")
_MADE_OF_TEXT = (OSError, ValueError, TypeError, RuntimeError, LookupError, AttributeError)
_HAS_RESULT, _HAS_ERROR = b"+", b"-"


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
    own, error = b"", None
    try:
        own = make()
    except Exception as failure:  # of any class, and the other ranks wait for this one
        error = failure
    message = _HAS_RESULT + own if error is None else _HAS_ERROR + told(error)
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
