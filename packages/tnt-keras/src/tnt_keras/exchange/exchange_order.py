"""What comes before an exchange in a graph, so that ranks cannot wait for each other for ever."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

_MUST_BE_ORDERED = (
    "An operation that runs a function with exchanges, such as a `While` or `If`, must be made "
    "by `StepExchange.ordered`: else ranks could come to other exchanges before it."
)


@dataclasses.dataclass
class _Position:
    """How far the exchanges of one graph are."""

    graph: Any
    token: tf.Tensor | None = None  # of the last exchange
    has_open_function: bool = False  # exchanges in a function whose operation is not ordered yet


class ExchangeOrder:
    """The order of the exchanges of a graph, and of those in the functions of branches and loops.

    All ranks come to exchanges in the order in which they were traced: in each graph and function
    an exchange takes the token of the one before, and `ordered` makes what runs a function with
    exchanges. Such functions need automatic control dependencies, as `tf.cond`, `tf.while_loop` and
    `tf.function` give them: then what runs them ends after their exchanges, and so does an
    iteration.

    It belongs to the graph that is being traced when it is created.
    """

    def __init__(self) -> None:
        self._graph = _current_graph()
        self._positions: dict[int, _Position] = {}

    def is_in_function(self) -> bool:
        """Return whether a branch or loop of the graph is being traced. Local."""
        return _current_graph() is not self._graph

    @contextlib.contextmanager
    def next(self) -> Iterator[tf.Tensor]:
        """Give the token of what comes before the next exchange of the current graph. Local.

        What is traced inside waits for all inputs of a function: for its iteration.
        """
        position = self._position()
        if position.has_open_function:
            raise RuntimeError(_MUST_BE_ORDERED)
        if position.graph is not self._graph:
            self._position_in(position.graph.outer_graph).has_open_function = True
        given = list(position.graph.inputs) if self.is_in_function() else []
        with tf.control_dependencies(given):
            yield tf.zeros([], tf.int32) if position.token is None else position.token

    def finished(self, token: tf.Tensor) -> None:
        """Note the token of the exchange that was traced last in the current graph. Local."""
        self._position().token = token

    def ordered(self, make: Callable[[], list[tf.Tensor]]) -> list[tf.Tensor]:
        """Make what runs functions with exchanges, in its place among the exchanges. Local.

        `make` returns at least one tensor: the outputs, or what depends on them.
        """
        position = self._position()
        position.has_open_function = False
        with self.next() as previous, tf.control_dependencies([previous]):
            made = make()
        with tf.control_dependencies(made):
            position.token = tf.identity(previous)
        position.has_open_function = False
        return made

    def require_complete(self) -> None:
        """Refuse operations that run functions with exchanges and were not ordered. Local."""
        if any(position.has_open_function for position in self._positions.values()):
            raise RuntimeError(_MUST_BE_ORDERED)

    def _position(self) -> _Position:
        return self._position_in(_current_graph())

    def _position_in(self, graph: Any) -> _Position:
        return self._positions.setdefault(id(graph), _Position(graph))


def _current_graph() -> Any:
    return tf.compat.v1.get_default_graph()
