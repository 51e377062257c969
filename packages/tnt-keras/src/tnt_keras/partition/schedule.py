"""The order in which the operations of a process are made, and what is exchanged together.

Operations are made in the order of the trace, each as soon as its inputs are there. What needs a value
of other processes is put aside. When nothing else can be made, all that was asked for becomes one
exchange, and what was put aside goes on (list scheduling). A value takes part in the exchange at hand
only if somebody who reads rows waits for it; all others, gradients and metrics, can wait for the last
exchange of the step, which is then beside backpropagation: a start runs as soon as its tensor exists,
wherever it stands in the graph.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import tensorflow as tf

from tnt_keras.partition import bodies
from tnt_keras.partition.emission import Emission, Emitted
from tnt_keras.partition.placement import Rows
from tnt_keras.partition.plan import Body, Branch, Known, Loop, Region, Step
from tnt_keras.partition.traced import Edge, Node


class Schedule:
    """Makes the operations of the step itself. Collective where exchanges are made.

    Args:
        emission: Makes operations.
        body: What is done for each node.
        arguments: What the graph is given.
    """

    def __init__(self, emission: Emission, body: Body, arguments: Sequence[Emitted]) -> None:
        self._emission = emission
        self._body = body
        self._steps = {step.node: step for step in body.steps}
        self._emitted: dict[Edge, Emitted] = {
            (node, 0): e for node, e in zip(body.flat.arguments, arguments, strict=True)
        }
        self._users: dict[Node, list[Node]] = {}
        self._missing: dict[Node, int] = {}
        self._ready: list[tuple[int, Node]] = []
        self._waiting: list[Node] = []
        self._left: dict[Node, None] = dict.fromkeys(self._steps)
        self._count_inputs()

    def run(self) -> list[list[tf.Tensor]]:
        """Make all operations, and return the tensors of the outputs as the body wants them."""
        while True:
            self._make_ready()
            if not self._left and not self._output_requests():
                break
            self._exchange()
        return [
            self._emission.bring(self._emitted[edge], placement)
            for edge, placement in zip(self._body.flat.outputs, self._body.outputs, strict=True)
        ]

    def _count_inputs(self) -> None:
        for step in self._body.steps:
            before = {source for source, _ in step.node.inputs} | set(step.node.controls)
            before = {n for n in before if n in self._steps}
            self._missing[step.node] = len(before)
            for node in before:
                self._users.setdefault(node, []).append(step.node)
            if not before:
                heapq.heappush(self._ready, (step.node.index, step.node))

    def _make_ready(self) -> None:
        while self._ready:
            _, node = heapq.heappop(self._ready)
            if self._requests(node):
                self._waiting.append(node)
                continue
            step = self._steps[node]
            inputs = [self._emitted[edge] for edge in node.inputs]
            for i, emitted in enumerate(bodies.emit(self._emission, step, inputs)):
                self._emitted[node, i] = emitted
            del self._left[node]
            for user in self._users.get(node, ()):
                self._missing[user] -= 1
                if not self._missing[user]:
                    heapq.heappush(self._ready, (user.index, user))

    def _requests(self, node: Node) -> list[Emitted]:
        """What must be exchanged before the operation can be made, as far as it exists."""
        step = self._steps[node]
        if isinstance(step, Known):
            return []
        return [
            self._emitted[edge]
            for edge, placement in zip(node.inputs, step.demands, strict=True)
            if edge in self._emitted
            and self._emission.needs_exchange(self._emitted[edge], placement)
        ]

    def _output_requests(self) -> list[Emitted]:
        return [
            self._emitted[edge]
            for edge, placement in zip(self._body.flat.outputs, self._body.outputs, strict=True)
            if edge in self._emitted
            and self._emission.needs_exchange(self._emitted[edge], placement)
        ]

    def _exchange(self) -> None:
        """Exchange what operations wait for that lead to one that reads rows; if none does, all."""
        leading = self._leading_to_rows()
        asked = _unique(e for node in leading for e in self._requests(node))
        is_last = not any(node in leading for node in self._waiting)
        if is_last:
            left = [e for node in self._left for e in self._requests(node)]
            asked = _unique([*left, *self._output_requests()])
        assert asked, f"Nothing can be done for {list(self._left)[:5]}."
        # In the order in which their operands came into being.
        asked.sort(key=lambda e: e.node.index if e.node is not None else -1)
        for emitted in asked:
            self._emission.exchange.ask(self._emission.request(emitted))
        results = self._emission.exchange.flush(is_last)
        for emitted, result in zip(asked, results, strict=True):
            self._emission.received(emitted, result)
        for node in self._waiting:
            heapq.heappush(self._ready, (node.index, node))
        self._waiting = []

    def _leading_to_rows(self) -> set[Node]:
        """Of the operations that are not made yet: those after which rows are read."""
        leading: set[Node] = set()
        for node in reversed(self._left):
            if _reads_rows(self._steps[node]) or any(u in leading for u in self._users.get(node, ())):
                leading.add(node)
        return leading


def _reads_rows(step: Step) -> bool:
    if isinstance(step, Loop | Branch | Region):
        return True
    return any(
        isinstance(value.placement, Rows) for value in step.inputs
    ) or any(isinstance(demand, Rows) for demand in step.demands)


def _unique(emitted: object) -> list[Emitted]:
    return list(dict.fromkeys(emitted))  # type: ignore[call-overload]

