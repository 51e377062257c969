"""Read or write files on all ranks: an error of one rank is an error of all."""

from __future__ import annotations

import builtins
import os
from collections.abc import Callable
from typing import TypeVar

from tnt_keras.collectives.errors import of_other_rank
from tnt_keras.collectives.messages import allgather
from tnt_keras.process.rank import MASTER_RANK, get_rank, get_size

_Result = TypeVar("_Result")
_MADE_OF_TEXT = (OSError, ValueError, TypeError, RuntimeError, LookupError, AttributeError)


def run_together(
    verb: str,
    path: str | os.PathLike[str],
    action: Callable[[], _Result],
    *,
    is_of_master: bool = False,
) -> _Result:
    """Work on a file on this rank, and wait until every rank has done so. Collective.

    Args:
        verb: What is done with the file, the same on all ranks: "read", "write".
        path: The file, which may be another one on each rank; for messages of other ranks.
        action: What this rank does; may be nothing. It must not wait for other ranks.
        is_of_master: Whether this rank works on a copy of the master's file: if the master fails
            too, its error says more.

    Returns:
        What the action returns.

    Raises:
        Exception: Where the action failed, its own error. On the other ranks one that says which
            rank failed and why, of the same class if that is an error of Python itself that takes a
            message (`FileNotFoundError`, `TypeError`, ...), else an `OSError`.
    """
    if get_size() == 1:
        return action()
    error: Exception | None = None
    try:
        result = action()
    except Exception as failure:  # every kind must reach the other ranks, which wait for this one
        error = failure
    name = type(error).__name__
    text = f"{name}\n{os.fspath(path)!s}: {name}: {error}" if error else ""
    message = text.encode(errors="backslashreplace")  # bytes of a file's name may be no text
    of_ranks = [other.decode() for other in allgather(f"end of {verb}", message)]
    if error is not None and not (is_of_master and of_ranks[MASTER_RANK]):
        raise error
    for rank, text in enumerate(of_ranks):
        if text:
            name, _, description = text.partition("\n")
            raise of_other_rank(
                _class_of(name), f"Rank {get_rank()}: rank {rank} could not {verb} {description}"
            )
    return result


def _class_of(name: str) -> type[Exception]:
    """Return the class of that name, if it is one of Python itself that is made of a message."""
    named = getattr(builtins, name, OSError)
    is_made_of_text = isinstance(named, type) and issubclass(named, _MADE_OF_TEXT)
    return named if is_made_of_text and not issubclass(named, UnicodeError) else OSError
