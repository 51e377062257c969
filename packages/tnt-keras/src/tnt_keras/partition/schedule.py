"""In which order a process makes the operations of a step, and what it exchanges together.

This is list scheduling. Operations are made in the order of the trace, each as soon as its inputs
exist. An operation that needs a value from other processes is put aside. When nothing else can be
made, the values that are needed become one exchange, and the operations put aside go on. A value
takes part in this exchange only if an operation that leads to rows waits for it. All others,
gradients and metrics, wait for the last exchange of the step. It overlaps with backpropagation all
the same: sending a tensor starts as soon as the tensor exists, wherever the exchange stands in the
graph.
"""

from __future__ import annotations

import heapq

import tensorflow as tf

from tnt_keras.partition.emitter import Emitted, Emitter
from tnt_keras.partition.graph import Edge, Node
from tnt_keras.partition.plan import Alias, Body, Known
from tnt_keras.partition.steps import emit
from tnt_keras.partition.value import Placement, Sharded


class Schedule:
    """Makes the operations of the step itself. Collective where exchanges are made."""

    def __init__(self, emitter: Emitter, body: Body, arguments: dict[Edge, Emitted]) -> None:
        self._emitter = emitter
        self._body = body
        self.num_levels = 0
        self.emitted = dict(arguments)
        self._sources: dict[Edge, Edge] = {}  # of the outputs of aliases, which wait for nothing
        for step in body.steps:
            if isinstance(step, Alias):
                for i, edge in enumerate(step.node.inputs):
                    self._sources[step.node, i] = self._sources.get(edge, edge)
        self._steps = {s.node: s for s in body.steps if not isinstance(s, Alias)}
        self._users: dict[Node, list[Node]] = {}
        self._missing: dict[Node, int] = {}
        self._ready: list[tuple[int, Node]] = []
        self._waiting: list[Node] = []
        self._num_left = len(self._steps)
        self._count_inputs()
        self._readers = self._readers_of_edges()
        self._open: dict[Emitted, bool] = {}  # what must be exchanged -> whether for rows
        for edge in list(self.emitted):
            self._note(edge)

    def run(self) -> list[list[tf.Tensor]]:
        """Make all operations, and return the outputs in the placements that the body demands."""
        self._make_ready()
        while self._open:
            self._exchange()
            self._make_ready()
        assert not self._num_left, f"Operations are left: {self._waiting}"
        self.emitted |= {edge: self.emitted[source] for edge, source in self._sources.items()}
        outputs = [self.emitted[edge] for edge in self._body.flat.outputs]
        return self._emitter.reshard_all(outputs, self._body.outputs)

    def _inputs(self, node: Node) -> list[Edge]:
        """Return where a node's inputs come from, past aliases."""
        return [self._sources.get(edge, edge) for edge in node.inputs]

    def _count_inputs(self) -> None:
        for step in self._steps.values():
            before = {source for source, _ in self._inputs(step.node)} | set(step.node.controls)
            before = set() if isinstance(step, Known) else before & self._steps.keys()
            self._missing[step.node] = len(before)
            for node in before:
                self._users.setdefault(node, []).append(step.node)
            if not before:
                heapq.heappush(self._ready, (step.node.index, step.node))

    def _readers_of_edges(self) -> dict[Edge, list[tuple[Placement, bool]]]:
        """Return the placements in which each value is read, and whether that leads to rows.

        Operations lead to rows if they read rows, or such an operation depends on them.
        """
        leading: set[Node] = set()
        readers: dict[Edge, list[tuple[Placement, bool]]] = {}
        for node, step in reversed(self._steps.items()):
            # One that gathers rows reads the result.
            reads_rows = step.bodies or any(isinstance(demand, Sharded) for demand in step.demands)
            if reads_rows or any(u in leading for u in self._users.get(node, ())):
                leading.add(node)
            if not isinstance(step, Known):
                for edge, placement in zip(self._inputs(node), step.demands, strict=True):
                    readers.setdefault(edge, []).append((placement, node in leading))
        for edge, placement in zip(self._body.flat.outputs, self._body.outputs, strict=True):
            readers.setdefault(self._sources.get(edge, edge), []).append((placement, False))
        return readers

    def _note(self, edge: Edge) -> None:
        """Note that a new value must be exchanged, if one of its readers needs that."""
        emitted = self.emitted[edge]
        for placement, leads in self._readers.get(edge, ()):
            if self._emitter.needs_exchange(emitted, placement):
                self._open[emitted] = leads or self._open.get(emitted, False)

    def _make_ready(self) -> None:
        """Make all operations that wait for no exchange."""
        while self._ready:
            _, node = heapq.heappop(self._ready)
            step = self._steps[node]
            inputs = []
            if not isinstance(step, Known):
                inputs = [self.emitted[edge] for edge in self._inputs(node)]
                demands = zip(inputs, step.demands, strict=True)
                if any(self._emitter.needs_exchange(e, p) for e, p in demands):
                    self._waiting.append(node)
                    continue
            for i, emitted in enumerate(emit(self._emitter, step, inputs)):
                self.emitted[node, i] = emitted
                self._note((node, i))
            self._num_left -= 1
            for user in self._users.get(node, ()):
                self._missing[user] -= 1
                if not self._missing[user]:
                    heapq.heappush(self._ready, (user.index, user))

    def _exchange(self) -> None:
        """Exchange what operations on rows wait for; if there is nothing, all that is left."""
        asked = [emitted for emitted, leads in self._open.items() if leads]
        is_last = not asked
        asked = asked or list(self._open)
        # In the order in which their operands came into being.
        asked.sort(key=lambda e: e.node.index if e.node is not None else -1)
        for emitted in asked:
            request = self._emitter.request(emitted, self.num_levels, is_last=is_last)
            self._emitter.exchange.ask(request)
        results = self._emitter.exchange.flush(is_last)
        self.num_levels += 1
        for emitted, result in zip(asked, results, strict=True):
            self._emitter.received(emitted, result)
            del self._open[emitted]
        for node in self._waiting:
            heapq.heappush(self._ready, (node.index, node))
        self._waiting = []
