"""Which operations of a process' graph XLA compiles together: those between two exchanges.

XLA compiles a function as a whole, a *cluster*. It cannot compile an exchange, nor what runs on one
rank alone, so these stay outside. A cluster must not need what needs its own results. Therefore
each operation has a level: the number of times that a way to it, from what the step is given,
returns from outside into a cluster. All operations of a level are one cluster. What lies before the
one exchange of most steps is the first, and the update is the second.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator

import tensorflow as tf

from tnt_keras.partition.operations import is_handle
from tnt_keras.partition.reshard import Exchange, Request


class OutsideExchange:
    """An exchange, as `make` makes it, that notes the operations it makes in `noted`."""

    def __init__(self, make: Callable[[], Exchange], noted: set[tf.Operation]) -> None:
        self._noted = noted
        with self._noting():
            self._exchange = make()

    def ask(self, request: Request) -> None:
        """Note a request, for the next `flush`."""
        with self._noting():
            self._exchange.ask(request)

    def flush(self, last: bool) -> list[tf.Tensor]:
        """Exchange all noted requests. Collective."""
        with self._noting():
            return self._exchange.flush(last)

    def blocking(self, request: Request) -> tf.Tensor:
        """Exchange one value at once. Collective."""
        with self._noting():
            return self._exchange.blocking(request)

    def ordered(self, make: Callable[[], list[tf.Tensor]]) -> list[tf.Tensor]:
        """Make an operation with exchanges inside."""
        with self._noting():
            return self._exchange.ordered(make)

    @contextlib.contextmanager
    def _noting(self) -> Iterator[None]:
        graph = tf.compat.v1.get_default_graph()
        before = len(graph.get_operations())
        yield
        self._noted.update(graph.get_operations()[before:])


@dataclasses.dataclass(frozen=True, eq=False)
class Stage:
    """Operations of a graph, in an order in which they can be made, after all former stages."""

    operations: list[tf.Operation]
    is_cluster: bool


def stages_of(graph: tf.Graph, outside: Iterable[tf.Operation]) -> list[Stage]:
    """Return clusters and what lies between them, without constants and placeholders. Pure.

    Operations of the graph were made in an order in which each can run. Those that nothing needs
    are left out. A list or resource cannot leave a cluster: what makes and reads one that would, is
    outside, too.
    """
    operations = _needed(graph)
    left_out = set(outside)
    levels = _levels(operations, left_out)
    while crossing := _of_crossing_handles(graph, levels, left_out):
        left_out |= crossing
        levels = _levels(operations, left_out)
    places = {op: 2 * level + 1 + (op in left_out) for op, level in levels.items()}
    stages = [Stage([], place % 2 == 1) for place in range(max(places.values(), default=-1) + 1)]
    for op, place in places.items():
        stages[place].operations.append(op)
    return [stage for stage in stages if stage.operations]


def _needed(graph: tf.Graph) -> list[tf.Operation]:
    """Return what outputs and effects need, in the order in which it was made."""
    needed: set[tf.Operation] = set()
    todo = [*(tensor.op for tensor in graph.outputs), *graph.control_outputs]
    while todo:
        op = todo.pop()
        if op not in needed:
            needed.add(op)
            todo += [*(tensor.op for tensor in op.inputs), *op.control_inputs]
    given = {tensor.op for tensor in graph.inputs}
    return [
        op
        for op in graph.get_operations()
        if op in needed and op not in given and op.type != "Const"
    ]


def _levels(
    operations: Iterable[tf.Operation], outside: set[tf.Operation]
) -> dict[tf.Operation, int]:
    """Return the level of each operation; one outside has that of the last cluster it needs."""
    levels: dict[tf.Operation, int] = {}
    for op in operations:
        before = [*(tensor.op for tensor in op.inputs), *op.control_inputs]
        known = [each for each in before if each in levels]
        if op in outside:
            levels[op] = max((levels[each] for each in known), default=-1)
        else:
            levels[op] = max([0, *(levels[each] + (each in outside) for each in known)])
    return levels


def _of_crossing_handles(
    graph: tf.Graph, levels: dict[tf.Operation, int], outside: set[tf.Operation]
) -> set[tf.Operation]:
    """Return operations of clusters that make or read handles which would leave a cluster."""

    def cluster(op: tf.Operation) -> int | None:
        return None if op in outside else levels[op]

    linked: dict[tf.Operation, list[tf.Operation]] = {}
    todo = [t.op for t in graph.outputs if is_handle(t.dtype) and t.op in levels]
    for op in levels:
        for tensor in op.inputs:
            if is_handle(tensor.dtype) and tensor.op in levels:
                linked.setdefault(op, []).append(tensor.op)
                linked.setdefault(tensor.op, []).append(op)
                if cluster(op) != cluster(tensor.op):
                    todo += [op, tensor.op]
    found: set[tf.Operation] = set()
    while todo:
        op = todo.pop()
        if op not in found:
            found.add(op)
            todo += linked.get(op, [])
    return found - outside
