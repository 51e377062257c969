"""What lanes ask of an exchange between processes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Protocol

import tensorflow as tf


@dataclasses.dataclass(frozen=True, eq=False)
class Request:
    """A value of this process that becomes one of all processes.

    Attributes:
        kind: "sum", "prod", "max", "min", "and", "or": reduced element by element; "gather": the rows
            of all processes in the order of ranks, along axis 0, of which each process may have another
            number; "broadcast": the value of rank 0.
        value: The lanes of this process, combined.
        name: Of the traced value, the same on all ranks.
        line: Of the user's source, "" if there is none.
        is_update: Whether the result reaches the update of an optimizer: a gradient.
    """

    kind: str
    value: tf.Tensor
    name: str
    line: str
    is_update: bool


class Exchange(Protocol):
    """Makes one value of those of all processes. Collective."""

    def ask(self, request: Request) -> None:
        """Note a request; it takes part in the next `flush`."""
        ...

    def flush(self, last: bool) -> list[tf.Tensor]:
        """Exchange all that was asked for, and return the results in that order.

        Args:
            last: Whether this is the last exchange of the step.
        """
        ...

    def blocking(self, request: Request) -> tf.Tensor:
        """Exchange one value inside of a branch or loop, or one whose size is not known yet."""
        ...

    def ordered(self, make: Callable[[], list[tf.Tensor]]) -> list[tf.Tensor]:
        """Make an operation that has blocking exchanges inside: a loop or a branch.

        It comes after all exchanges that were made, and before all that follow.

        Args:
            make: Makes the operation, and returns its outputs, or one that depends on it.
        """
        ...


class NoExchange:
    """The exchange of a graph that has nothing to exchange."""

    def ask(self, request: Request) -> None:
        """Refuse the request."""
        raise AssertionError(f"{request.name!r} must not be exchanged.")

    def flush(self, last: bool) -> list[tf.Tensor]:
        """Return nothing, since nothing was asked for."""
        return []

    def blocking(self, request: Request) -> tf.Tensor:
        """Refuse the request."""
        raise AssertionError(f"{request.name!r} must not be exchanged.")

    def ordered(self, make: Callable[[], list[tf.Tensor]]) -> list[tf.Tensor]:
        """Make the operation."""
        return make()
