"""Errors about what must be the same on all ranks, what another rank has met, and their causes.

TensorFlow hides a cause in the text of an error of its own; `cause_of` gives it its class again.
"""

from __future__ import annotations

import functools
import re
from typing import Any, ClassVar

import tensorflow as tf

import tnt_comm
from tnt_comm.failure import cause_rank


class OtherRankError(Exception):
    """Another rank has failed, `cause_rank`; the text says why. Made by `of_other_rank`."""

    _symbol: ClassVar[str] = "other-rank-failed"
    kind: ClassVar[type[Exception]]
    cause_rank: int

    def __str__(self) -> str:
        """Return the message, with the symbol once, at its end, even if it quotes an error."""
        mark = f" [{self._symbol}]"
        return super().__str__().replace(mark, "") + mark

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle how it is made, since its class has no name in a module."""
        return of_other_rank, (self.kind, self.cause_rank, *self.args)


def of_other_rank(kind: type[Exception], rank: int, message: str) -> OtherRankError:
    """Return an error that is also of class `kind`, and tells what a rank has met. Local."""
    error = _class_of_other_rank(kind)(message)  # type: ignore[arg-type]  # a class has a hash
    error.cause_rank = rank
    return error


def of_all_ranks(error: Exception) -> Exception:
    """Mark an error that all ranks raise now: the call that raises it goes before its text."""
    error.is_of_all_ranks = True  # type: ignore[attr-defined]
    return error


def is_known_to_all(error: Exception) -> bool:
    """Return whether all ranks raise an error, not only this one, nor one about another rank."""
    return not isinstance(error, OtherRankError) and cause_of(error) is not None


def with_text(error: Exception, text: str) -> Exception:
    """Return an error like another one with a text of its own. Local."""
    copy = type(error)(text)
    if isinstance(error, (tnt_comm.CommError, OtherRankError)):
        copy.cause_rank = error.cause_rank  # type: ignore[attr-defined]  # of the same class
    return copy


@functools.cache
def _class_of_other_rank(kind: type[Exception]) -> type[OtherRankError]:
    """Return a class of the kind's own name, in tracebacks `OtherRankError.` and that name."""
    qualname = f"{OtherRankError.__qualname__}.{kind.__qualname__}"
    names = {"__module__": __name__, "__qualname__": qualname, "kind": kind}
    return type(kind.__name__, (OtherRankError, kind), names)


# The names that `kernel.cpp` writes before the text of tnt-comm.
_KINDS: dict[str, type[Exception]] = {
    "UsageError": ValueError,
    "CommError": tnt_comm.CommError,
    "CommTimeoutError": tnt_comm.CommTimeoutError,
    "PeerLostError": tnt_comm.PeerLostError,
    "MismatchError": tnt_comm.MismatchError,
}
_CAUSE = re.compile(rf"(?:^|[\s:])({'|'.join(_KINDS)}): (.*?)(?=\n?\s*\[\[|\n\t|\Z)", re.DOTALL)

MARK_OF_CHECKS = "Wrong data on several ranks: "
"""Distinguishes assertions of ours in the graph of a step from those of a user."""
_FAILED_CHECK = re.compile(rf"assertion failed: \[{MARK_OF_CHECKS}(.*?)\]", re.DOTALL)


def cause_of(error: Exception) -> Exception | None:
    """Return the cause as an error of tnt-comm or Python; None if it is the user's own. Pure."""
    is_told = isinstance(error, (tnt_comm.CommError, OtherRankError))
    if is_told or hasattr(error, "is_of_all_ranks"):
        return error
    if not isinstance(error, tf.errors.OpError):
        return None
    failed = _FAILED_CHECK.search(str(error))
    if failed is not None:
        return ValueError(failed.group(1))
    found = _CAUSE.search(str(error))
    if found is None:
        return None
    name, text = found.groups()
    cause = _KINDS[name](text.strip())
    if isinstance(cause, tnt_comm.CommError):
        cause.cause_rank = cause_rank()
    return cause
