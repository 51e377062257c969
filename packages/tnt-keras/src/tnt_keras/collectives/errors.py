"""Errors about what must be the same on all ranks, and about what another rank has met."""

from __future__ import annotations

import functools
from typing import Any, ClassVar


class DifferentInputError(ValueError):
    """Ranks were given different arguments, models or data."""


class DifferentWeightsError(RuntimeError):
    """Ranks hold different weights."""


class OtherRankError(Exception):
    """Another rank has failed; the text says which, and why.

    Made by `of_other_rank`. tnt-launch knows this name in tracebacks: the other rank is to blame.

    Attributes:
        kind: What it is besides, so that handlers of the class find it.
    """

    kind: ClassVar[type[Exception]]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle how it is made, since its class has no name in a module."""
        return of_other_rank, (self.kind, *self.args)


def of_other_rank(kind: type[Exception], message: str) -> Exception:
    """Make an error that tells what another rank has met. Local.

    What is raised from a collective call then begins with the user's line, like errors of
    communication.

    Args:
        kind: Of which class it is besides, one that is made of a message.
        message: Names the other rank.
    """
    return _class_of_other_rank(kind)(message)  # type: ignore[arg-type]  # a class has a hash


@functools.cache
def _class_of_other_rank(kind: type[Exception]) -> type[Exception]:
    """Return a class of the kind's own name, in tracebacks `OtherRankError.` and that name."""
    qualname = f"{OtherRankError.__qualname__}.{kind.__qualname__}"
    names = {"__module__": __name__, "__qualname__": qualname, "kind": kind}
    return type(kind.__name__, (OtherRankError, kind), names)
