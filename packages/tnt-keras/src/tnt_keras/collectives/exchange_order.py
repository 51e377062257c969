"""What must come before an exchange in a graph, so that ranks cannot wait for each other for ever."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

_CALLS = frozenset(
    {
        *("If", "StatelessIf", "Case", "StatelessCase", "While", "StatelessWhile"),
        *("PartitionedCall", "StatefulPartitionedCall"),
    }
)
"""Operations that run functions."""


@dataclasses.dataclass
class _Position:
    """How far the exchanges of one graph are.

    Attributes:
        token: Of the last one; None if there was none.
        num_operations: Of the graph, when it was added.
        has_exchange_inside: Whether a function that was traced since then exchanges something.
    """

    token: tf.Tensor | None = None
    num_operations: int = 0
    has_exchange_inside: bool = False


class ExchangeOrder:
    """The order of the exchanges of a graph, and of those in its branches and loops.

    All ranks come to exchanges in the order in which they were traced. An exchange in a function
    (of a branch or loop) comes after the last one of the graph around it, whose token the function
    captures; the next one of that graph comes after the operation that runs the function. That
    operation is not known, since it is made when the function is complete: so the next exchange
    comes after all operations since the last one that run functions.

    A loop must begin no iteration before the one before is complete: it has `parallel_iterations=1`,
    or its functions have automatic control dependencies, as those of `tf.while_loop` do. Since its
    condition is a function too, an exchange waits for all that its function is given.

    It belongs to the graph that is being traced when it is created.
    """

    def __init__(self) -> None:
        self._graph = tf.compat.v1.get_default_graph()
        self._positions: dict[int, _Position] = {}
        self._graphs: list[Any] = []  # keeps their ids unique

    @contextlib.contextmanager
    def next(self) -> Iterator[tf.Tensor]:
        """Give the token of what comes before the next exchange of the current graph. Local.

        What is traced inside waits for it, too.
        """
        graph = tf.compat.v1.get_default_graph()
        self._note_in_graphs_around(graph)
        token = self._token_of(graph)
        given = [] if graph is self._graph else list(graph.inputs)
        with tf.control_dependencies([*given, *self._calls_in(graph)]):
            yield tf.zeros([], tf.int32) if token is None else token

    def is_in_function(self) -> bool:
        """Return whether a branch or loop of the graph is being traced. Local."""
        return tf.compat.v1.get_default_graph() is not self._graph

    def finished(self, token: tf.Tensor) -> None:
        """Note the token of the exchange that was added last to the current graph. Local."""
        graph = tf.compat.v1.get_default_graph()
        position = self._position_of(graph)
        position.token = token
        position.num_operations = len(graph.get_operations())
        position.has_exchange_inside = False

    def _position_of(self, graph: Any) -> _Position:
        if id(graph) not in self._positions:
            self._graphs.append(graph)
            self._positions[id(graph)] = _Position()
        return self._positions[id(graph)]

    def _note_in_graphs_around(self, graph: Any) -> None:
        for outer in _graphs_around(graph):
            self._position_of(outer).has_exchange_inside = True

    def _token_of(self, graph: Any) -> tf.Tensor | None:
        for each in (graph, *_graphs_around(graph)):
            token = self._position_of(each).token
            if token is not None:
                return token
        return None

    def _calls_in(self, graph: Any) -> list[tf.Operation]:
        position = self._position_of(graph)
        if not position.has_exchange_inside:
            return []
        new = graph.get_operations()[position.num_operations :]
        return [operation for operation in new if operation.type in _CALLS]


def _graphs_around(graph: Any) -> Iterator[Any]:
    outer = getattr(graph, "outer_graph", None)
    while outer is not None:
        yield outer
        outer = getattr(outer, "outer_graph", None)
