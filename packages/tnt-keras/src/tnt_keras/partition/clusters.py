"""Which operations of a process' graph XLA compiles together: those between two exchanges.

XLA compiles a function as a whole, a *cluster*. It cannot compile an exchange, nor what runs on one
rank alone, so these stay outside. How XLA rounds depends on all that is in a cluster. Therefore
what ranks must have alike, such as the update of a weight, shares no cluster with what they have
each for themselves, such as the operations on their rows.

A cluster must not need what needs its own results. Each operation has a level, in which its rows
come before what is replicated, and that before what stays outside: the number of times that a way
to the operation, from what the step is given, goes back in this order. The operations of a kind
and level are one cluster. Most steps have two: what lies before their one exchange, and the update.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

from tnt_keras.partition.across_ranks import AcrossRanks
from tnt_keras.partition.operations import calls_functions, has_effect, is_handle
from tnt_keras.partition.reshard import Exchange, Request

_COPIES = {"Identity", "ReadVariableOp"}


class NotedExchange:
    """An exchange, as `make` makes it, whose operations are noted."""

    def __init__(self, make: Callable[[], Exchange], across_ranks: AcrossRanks) -> None:
        self._noting = across_ranks.exchanging
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


class Kind(enum.IntEnum):
    """Where an operation runs, in the order of a level."""

    LOCAL = 0
    REPLICATED = 1
    OUTSIDE = 2


Place: TypeAlias = tuple[int, Kind]
"""A level, and a kind within it: places are in the order in which their operations run."""


@dataclasses.dataclass(frozen=True, eq=False)
class Stage:
    """Operations of a kind in an order in which they can be made, after all former stages.

    `results` are the tensors that other stages or the caller read.
    """

    kind: Kind
    operations: list[tf.Operation]
    results: list[tf.Tensor]

    @property
    def is_cluster(self) -> bool:
        """Whether XLA compiles the operations."""
        return self.kind != Kind.OUTSIDE


def stages_of(graph: tf.Graph, across_ranks: AcrossRanks) -> list[Stage]:
    """Return clusters and what lies between them, without constants and placeholders. Pure.

    Operations of the graph were made in an order in which each can run. Those that nothing needs
    are left out. A list or resource cannot leave a cluster: what makes and reads one that would, is
    outside, too.
    """
    operations = _needed(graph, across_ranks)
    kinds = _kinds(graph, operations, across_ranks)
    places = _places(operations, kinds)
    while crossing := _of_crossing_handles(graph, places):
        kinds |= dict.fromkeys(crossing, Kind.OUTSIDE)
        places = _places(operations, kinds)
    _sink(operations, places)
    stages: dict[Place, list[tf.Operation]] = {}
    for op in operations:
        stages.setdefault(places[op], []).append(op)
    outputs = {tensor.ref() for tensor in graph.outputs}
    read = {Kind.REPLICATED: outputs | across_ranks.used_by_some}
    return [
        Stage(place[1], each, _results(each, places, read.get(place[1], outputs)))
        for place, each in sorted(stages.items())
    ]


def _needed(graph: tf.Graph, across_ranks: AcrossRanks) -> list[tf.Operation]:
    """Return what outputs and effects need, of this or another rank, in the order of the graph."""
    needed: set[tf.Operation] = set()
    on_some = [ref.deref() for ref in across_ranks.used_by_some]
    outputs = [*graph.outputs, *(tensor for tensor in on_some if tensor.graph is graph)]
    todo = [*(tensor.op for tensor in outputs), *graph.control_outputs]
    while todo:
        op = todo.pop()
        if op not in needed:
            needed.add(op)
            todo += _sources(op)
    given = {tensor.op for tensor in graph.inputs}
    return [
        op
        for op in graph.get_operations()
        if op in needed and op not in given and op.type != "Const"
    ]


def _sources(op: tf.Operation) -> list[tf.Operation]:
    return [*(tensor.op for tensor in op.inputs), *op.control_inputs]


def _kinds(
    graph: tf.Graph, operations: Sequence[tf.Operation], across_ranks: AcrossRanks
) -> dict[tf.Operation, Kind | None]:
    """Return the kind of each operation; None where nothing is rounded, so that any will do.

    What is alike on all ranks but kept by none may be rounded differently: it is local, as are its
    readers. So are variables and what only copies, if something local reads them. What is local but
    gives numbers that all ranks keep alike, as a loop may, is outside; XLA knows no text, so what
    only `tf.print` reads is, too.
    """
    replicated = _replicated(operations, across_ranks)
    kept = _kept(graph, operations, replicated, across_ranks)
    kinds: dict[tf.Operation, Kind | None] = {}
    for op in reversed(operations):
        users = [user for tensor in op.outputs for user in tensor.consumers() if user in kinds]
        is_alone = op.name in across_ranks.alone
        if op in across_ranks.exchanges or is_alone or _is_text_for(op, users, kinds):
            kinds[op] = Kind.OUTSIDE
        elif op not in replicated:
            gives = _rounds(op) and not kept.isdisjoint(users)
            kinds[op] = Kind.OUTSIDE if gives else Kind.LOCAL
        elif not _rounds(op):
            kinds[op] = None
        elif op.type in _COPIES and any(kinds[user] == Kind.LOCAL for user in users):
            kinds[op] = Kind.LOCAL
        else:
            kinds[op] = Kind.REPLICATED if op in kept else Kind.LOCAL
    return kinds


def _is_text_for(
    op: tf.Operation, users: Sequence[tf.Operation], kinds: Mapping[tf.Operation, Kind | None]
) -> bool:
    """Return whether an operation makes text that is read outside only, as for `tf.print`."""
    is_text = any(tensor.dtype == tf.string for tensor in op.outputs)
    return is_text and all(kinds[user] == Kind.OUTSIDE for user in users)


def _replicated(operations: Iterable[tf.Operation], across_ranks: AcrossRanks) -> set[tf.Operation]:
    """Return what all ranks compute alike: what is noted as such, and what has such inputs only."""
    found: set[tf.Operation] = set()
    exchanges = across_ranks.exchanges
    for op in operations:
        sources = {tensor.op for tensor in op.inputs}
        derived = bool(sources) and all(each in found or each in exchanges for each in sources)
        if op not in exchanges and across_ranks.is_replicated.get(op, derived or op.type == "NoOp"):
            found.add(op)
    return found


def _kept(
    graph: tf.Graph,
    operations: Sequence[tf.Operation],
    replicated: set[tf.Operation],
    across_ranks: AcrossRanks,
) -> set[tf.Operation]:
    """Return what is alike on all ranks and reaches a variable, an output, or an exchange."""
    results = {tensor.ref() for tensor in graph.outputs}
    kept: set[tf.Operation] = set()
    for op in reversed(operations):
        users = {user for tensor in op.outputs for user in tensor.consumers()}
        is_result = any(tensor.ref() in results for tensor in op.outputs)
        is_read = not (users.isdisjoint(kept) and users.isdisjoint(across_ranks.exchanges))
        if op in replicated and (is_result or is_read or has_effect(op.type)):
            kept.add(op)
    return kept


def _rounds(op: tf.Operation) -> bool:
    """Return whether an operation has to do with numbers that are rounded.

    A loop or branch may do so by the variables that it is given.
    """
    dtypes = [tensor.dtype for tensor in (*op.inputs, *op.outputs)]
    has_numbers = any(dtype.is_floating or dtype.is_complex for dtype in dtypes)
    return has_numbers or (any(map(is_handle, dtypes)) and calls_functions(op.type))


def _places(
    operations: Iterable[tf.Operation], kinds: Mapping[tf.Operation, Kind | None]
) -> dict[tf.Operation, Place]:
    """Return the first place of each operation; outside, that after the last cluster it needs."""
    places: dict[tf.Operation, Place] = {}
    for op in operations:
        before = [places[each] for each in _sources(op) if each in places]
        kind = kinds[op]
        if kind is None:
            kind = max(before, default=(0, Kind.LOCAL))[1]
            kind = Kind.LOCAL if kind == Kind.OUTSIDE else kind
        first = -1 if kind == Kind.OUTSIDE else 0
        places[op] = max([first, *(level + (other > kind) for level, other in before)]), kind
    return places


def _sink(operations: Sequence[tf.Operation], places: dict[tf.Operation, Place]) -> None:
    """Move what is replicated to the last cluster of its kind before its readers: fewer are left.

    The rate of an optimizer is then computed with the update, not before the exchange.
    """
    clusters = sorted({place for place in places.values() if place[1] == Kind.REPLICATED})
    limits: dict[tf.Operation, Place] = {}
    for op in reversed(operations):
        if places[op][1] == Kind.REPLICATED:
            limit = limits.get(op, clusters[-1])
            places[op] = max(place for place in clusters if place <= limit)
        for source in _sources(op):
            limits[source] = min(places[op], limits.get(source, places[op]))


def _results(
    operations: Sequence[tf.Operation], places: Mapping[tf.Operation, Place], read: set[Any]
) -> list[tf.Tensor]:
    """Return what operations elsewhere read, and what is `read` by others."""
    own = set(operations)
    return [
        tensor
        for op in operations
        for tensor in op.outputs
        if tensor.ref() in read
        or any(user in places and user not in own for user in tensor.consumers())
    ]


def _of_crossing_handles(
    graph: tf.Graph, places: Mapping[tf.Operation, Place]
) -> set[tf.Operation]:
    """Return operations of clusters that make or read handles which would leave a cluster."""

    def cluster(op: tf.Operation) -> Place | None:
        return None if places[op][1] == Kind.OUTSIDE else places[op]

    linked: dict[tf.Operation, list[tf.Operation]] = {}
    todo = [t.op for t in graph.outputs if is_handle(t.dtype) and t.op in places]
    for op in places:
        for tensor in op.inputs:
            if is_handle(tensor.dtype) and tensor.op in places:
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
    return {op for op in found if places[op][1] != Kind.OUTSIDE}
