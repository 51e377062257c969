"""What is noted of operations while they are made: which of them all ranks have alike."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import tensorflow as tf


@dataclasses.dataclass(eq=False)
class AcrossRanks:
    """How the operations of a process' graph, and of the functions it calls, are on other ranks.

    `exchanges` are operations of exchanges. `is_replicated` says of others whether all ranks make
    them with equal inputs. `alone` has the names of those that other ranks do not make,
    `used_by_some` what an operation uses that other ranks do not make, as references.
    """

    exchanges: set[tf.Operation] = dataclasses.field(default_factory=set)
    is_replicated: dict[tf.Operation, bool] = dataclasses.field(default_factory=dict)
    alone: set[str] = dataclasses.field(default_factory=set)
    used_by_some: set[Any] = dataclasses.field(default_factory=set)

    def note(self, operations: Iterable[tf.Operation], is_replicated: bool) -> None:
        """Note whether all ranks make operations with equal inputs."""
        self.is_replicated |= dict.fromkeys(operations, is_replicated)

    def exchanging(self) -> contextlib.AbstractContextManager[None]:
        """Note what is made meanwhile as exchanges."""
        return _noting(self.exchanges.update)

    def replicating(self) -> contextlib.AbstractContextManager[None]:
        """Note what is made meanwhile as replicated."""
        return _noting(lambda operations: self.note(operations, True))


@contextlib.contextmanager
def _noting(note: Callable[[list[tf.Operation]], None]) -> Iterator[None]:
    graph = tf.compat.v1.get_default_graph()
    before = len(graph.get_operations())
    yield
    note(graph.get_operations()[before:])
