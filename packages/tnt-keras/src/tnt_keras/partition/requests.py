"""What lanes ask of an exchange between processes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Protocol

import tensorflow as tf


@dataclasses.dataclass(frozen=True, eq=False)
class Request:
    """A value of this process that is combined with those of all processes.

    The kinds are "sum", "prod", "max", "min", "and" and "or", element by element; "gather" for the
    rows of all processes along axis 0, in the order of ranks, with any number each; "broadcast" for
    the value of rank 0.
    """

    kind: str
    value: tf.Tensor  # of this process: its lanes, combined
    name: str  # the same on all ranks
    line: str  # the user's, "" if there is none
    is_update: bool  # a gradient: the result reaches an optimizer's update


class Exchange(Protocol):
    """Combines values of all processes. Collective."""

    def ask(self, request: Request) -> None:
        """Note a request, for the next `flush`."""
        ...

    def flush(self, last: bool) -> list[tf.Tensor]:
        """Exchange all noted requests, and return the results in the order of the requests."""
        ...

    def blocking(self, request: Request) -> tf.Tensor:
        """Exchange one value at once: inside a branch or loop, or one whose size is unknown."""
        ...

    def ordered(self, make: Callable[[], list[tf.Tensor]]) -> list[tf.Tensor]:
        """Make an operation with blocking exchanges inside: a loop or a branch.

        It runs after all earlier exchanges and before all later ones. `make` returns its outputs or
        something that depends on it.
        """
        ...


class Alone:
    """The exchange of a lane that is all there is: of a local region, or of what needs no batch."""

    def ask(self, request: Request) -> None:
        """Refuse the request: a lane that is alone has all rows."""
        raise AssertionError(f"{request.name!r} must not be exchanged.")

    def flush(self, last: bool) -> list[tf.Tensor]:
        """Return nothing, since nothing was asked for."""
        return []

    def blocking(self, request: Request) -> tf.Tensor:
        """Return the value itself."""
        return request.value

    def ordered(self, make: Callable[[], list[tf.Tensor]]) -> list[tf.Tensor]:
        """Make the operation."""
        return make()
