"""What a process does for each node of the traced graph, in which order, and what it exchanges.

This is list scheduling. Operations are made in the order of the trace, each as soon as its inputs
exist. An operation that needs a value from other processes is put aside. When nothing else can be
made, the values that are needed become one exchange, and the operations put aside go on. A value
takes part in this exchange only if an operation that leads to rows waits for it. All others,
gradients and metrics, wait for the last exchange of the step. It overlaps with backpropagation all
the same: sending a tensor starts as soon as the tensor exists, wherever the exchange stands in the
graph.

Bodies of loops, branches and local regions are made in the order of the trace, and every exchange
in them blocks.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

from tnt_keras.partition import plan
from tnt_keras.partition.emitter import Emitted, Emitter
from tnt_keras.partition.graph import Edge, Node, users_line
from tnt_keras.partition.operations import OUTPUT, is_handle
from tnt_keras.partition.plan import Alias, Body, Known, Step
from tnt_keras.partition.random_ops import seeded_draw
from tnt_keras.partition.reshard import BatchSharding, NoExchange, Replicas, Request, scaled
from tnt_keras.partition.rules.registry import Decision
from tnt_keras.partition.value import (
    ANY_ROWS,
    REPLICATED,
    Placement,
    Sharded,
    Value,
    is_shared,
    static,
)

Outputs: TypeAlias = Sequence[Sequence[tf.Tensor]]
"""The tensors of values, for each replica."""


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
        self._emitter.order.exchange()
        results = self._emitter.exchange.flush(is_last)
        self.num_levels += 1
        for emitted, result in zip(asked, results, strict=True):
            self._emitter.received(emitted, result)
            del self._open[emitted]
        for node in self._waiting:
            heapq.heappush(self._ready, (node.index, node))
        self._waiting = []


def arguments_of(body: Body, tensors: Outputs) -> dict[Edge, Emitted]:
    """Return the arguments of a body that are given by these tensors, by their place in it."""
    each = zip(body.flat.arguments, body.arguments, tensors, strict=True)
    return {(node, 0): Emitted(value, parts, node) for node, value, parts in each}


def run_in_order(emitter: Emitter, body: Body, arguments: dict[Edge, Emitted]) -> list[Emitted]:
    """Make the operations of a body in the order of the trace. Collective if it exchanges values.

    Every exchange blocks. The outputs are not yet resharded to the placements that the body
    demands.
    """
    emitted = dict(arguments)
    for step in body.steps:
        made = emit(emitter, step, [emitted[edge] for edge in step.node.inputs])
        emitted |= {(step.node, i): output for i, output in enumerate(made)}
    return [emitted[edge] for edge in body.flat.outputs]


def emit(emitter: Emitter, step: Step, inputs: Sequence[Emitted]) -> Sequence[Emitted]:
    """Make the operations of a step, and return its outputs; exchanges of inputs block."""
    outputs: Outputs
    match step:
        case Alias():
            return inputs
        case Known():
            return [Emitted(value, None, step.node) for value in step.outputs]
        case plan.Compute(on_demand=True):
            return [Emitted(step.outputs[0], None, step.node, (step, inputs))]
        case plan.Compute():
            outputs = emitter.compute(step, inputs)
        case plan.Cut():
            return [_with_rows(emitter, step, inputs)]
        case _:
            outputs = _EMITTERS[type(step)](emitter, step, inputs)
    return [
        Emitted(value, tensors, step.node)
        for value, tensors in zip(step.outputs, outputs, strict=True)
    ]


def _with_rows(emitter: Emitter, step: plan.Cut, inputs: Sequence[Emitted]) -> Emitted:
    """Compute a value whole. It can be read both whole and as rows, without an exchange."""
    [rows] = step.outputs
    decision = Decision(step.demands, (REPLICATED,))
    compute = plan.Compute.by(decision, step.node, step.inputs, [rows.placed(REPLICATED)])
    emitted = Emitted(rows, None, step.node)
    [emitted.tensors[REPLICATED]] = emitter.compute(compute, inputs)
    return emitted


def _broadcast(emitter: Emitter, step: plan.Broadcast, inputs: Sequence[Emitted]) -> Outputs:
    """Run an operation on rank 0, and return its outputs on all ranks.

    What may change a resource, such as a variable or an iterator, runs on the others too, and so
    does what goes through a dataset, whose functions may: each process has its own.
    """
    node = step.node
    operands = [tensors[0] for tensors in emitter.reshard_all(inputs, step.demands)]
    emitter.across_ranks.used_by_some |= {tensor.ref() for tensor in operands}
    has_state = node.type not in OUTPUT and any(is_handle(v.dtype) for v in step.inputs)
    outputs = [tf.zeros([0], dtype) for dtype in node.dtypes]
    if has_state or emitter.sharding.replicas.first == 0:
        with emitter.after(node):
            if node in emitter.draw_counters:
                operation = seeded_draw(node, operands, emitter.draw_counters[node]).op
                emitter.operations[node] = [operation]
            else:
                operation = emitter.make(node, operands)
        if not has_state:
            emitter.across_ranks.alone.add(operation.name)
        outputs = list(operation.outputs)
    if node.type in OUTPUT:
        return [[t] for t in outputs]
    line = users_line(node)
    results = [
        emitter.blocking(Request("broadcast", tensor, node.name, line, False)) for tensor in outputs
    ]
    for result, value in zip(results, step.outputs, strict=True):
        result.set_shape(static(value.shape))
    return [[result] for result in results]


def _check(emitter: Emitter, step: plan.Check, inputs: Sequence[Emitted]) -> Outputs:
    resharded = emitter.reshard_all(inputs, step.demands)
    replicas = 1 if all(map(is_shared, step.demands)) else emitter.sharding.replicas.count
    with emitter.after(step.node):
        for replica in range(replicas):
            emitter.make(step.node, [parts[min(replica, len(parts) - 1)] for parts in resharded])
    return []


def _accumulated(emitter: Emitter, step: plan.Accumulated, inputs: Sequence[Emitted]) -> Outputs:
    """Read or assign the partial sum of this process, which counts as that of its first replica."""
    sharding = emitter.sharding
    [handle], *partial_sums = emitter.reshard_all(inputs, step.demands)
    operands = [handle, *(sharding.reduced(parts, "sum") for parts in partial_sums)]
    with emitter.after(step.node):
        outputs = emitter.make(step.node, operands).outputs
    return [[t, *(tf.zeros_like(t) for _ in sharding.replica_rows[1:])] for t in outputs]


def _count(emitter: Emitter, step: plan.Count, inputs: Sequence[Emitted]) -> Outputs:
    """Compute sizes of whole values: those of a replica's part, with `N` rows for `k`."""
    sharding, node = emitter.sharding, step.node
    outputs = []
    for emitted, placement, dtype in zip(inputs, step.demands, node.dtypes, strict=True):
        parts = emitter.reshard(emitted, placement)
        part = parts[0] if is_shared(placement) else emitter.first(parts)
        is_size = node.type == "Size"
        numbers = (tf.size if is_size else tf.shape)(part, out_type=dtype)
        if isinstance(placement, Sharded):
            rank = tf.size(numbers) if part.shape.rank is None else part.shape.rank
            counts = is_size or tf.range(rank) == placement.axis
            numbers = scaled(numbers, counts, sharding.replica_rows[0], sharding.num_rows)
        outputs.append([numbers])
    return outputs


def _loop(emitter: Emitter, step: plan.Loop, inputs: Sequence[Emitted]) -> Outputs:
    resharded = emitter.reshard_all(inputs, step.demands)
    before = len(emitter.blocked)
    of_iteration, of_condition = step.bodies
    body = _function(emitter, of_iteration, resharded, is_repeated=True)
    condition = _function(emitter, of_condition, resharded)
    blocks = len(emitter.blocked) > before
    node, others = step.node, emitter.sharding.arguments
    make = tf.raw_ops.While if blocks or node.type == "While" else tf.raw_ops.StatelessWhile
    specs = [spec for value in of_iteration.arguments for spec in _specs(emitter, value)]

    def loop() -> list[tf.Tensor]:
        made = make(
            input=[*_flat(resharded), *others],
            cond=condition,
            body=body,
            # Not those of the inputs: an iteration may give a variable another size.
            output_shapes=[spec.shape for spec in (*specs, *others)],
            parallel_iterations=1 if blocks else node.attributes["parallel_iterations"],
            name=_local_name(node.name),
        )
        return list(made)

    return _made(emitter, step, loop, blocks)


def _branch(emitter: Emitter, step: plan.Branch, inputs: Sequence[Emitted]) -> Outputs:
    if len(step.bodies) == 1:
        return _inlined(emitter, step, inputs[1:])
    [chosen], *resharded = emitter.reshard_all(inputs, step.demands)
    before = len(emitter.blocked)
    functions = [_function(emitter, body, resharded) for body in step.bodies]
    blocks = len(emitter.blocked) > before
    node = step.node
    kind = "Case" if node.type.endswith("Case") else "If"
    options: dict[str, Any] = {"branch_index": chosen, "branches": functions}
    if kind == "If":
        options = {"cond": chosen, "then_branch": functions[0], "else_branch": functions[1]}
    make = getattr(tf.raw_ops, kind if blocks or node.type == kind else f"Stateless{kind}")

    def branch() -> Any:
        made = make(
            input=[*_flat(resharded), *emitter.sharding.arguments],
            Tout=[t.dtype for t in functions[0].outputs],
            output_shapes=[],
            name=_local_name(node.name),
            **options,
        )
        return [made] if isinstance(made, tf.Operation | tf.Tensor) else list(made)

    return _made(emitter, step, branch, blocks)


def _inlined(emitter: Emitter, step: plan.Branch, arguments: Sequence[Emitted]) -> Outputs:
    """Make the one branch that is ever taken in the place of the operation."""
    [body] = step.bodies
    inner = emitter.of_body(emitter.sharding)
    given = {(n, 0): e for n, e in zip(body.flat.arguments, arguments, strict=True)}
    with emitter.after(step.node):
        outputs = inner.reshard_all(run_in_order(inner, body, given), body.outputs)
    made = inner.operations.items()
    emitter.operations[step.node] = [o for node, each in made if node.has_effect for o in each]
    return outputs


def _made(
    emitter: Emitter, step: Step, make: Callable[[], list[Any]], blocks: bool
) -> list[list[tf.Tensor]]:
    """Make a loop or branch, and return its outputs by value and replica.

    One that holds exchanges takes its place in the order of all exchanges.
    """
    emitter.order.meet()
    with emitter.after(step.node):
        made = emitter.exchange.ordered(make) if blocks else make()
    if made:
        first = made[0]
        operation = first.op if isinstance(first, tf.Tensor) else first
        emitter.operations[step.node] = [operation]
        placements = (*step.demands, *(value.placement for value in step.outputs))
        emitter.across_ranks.note([operation], all(map(is_shared, placements)))
    tensors = iter(t for t in made if isinstance(t, tf.Tensor))
    outputs: list[list[tf.Tensor]] = []
    for value in step.outputs:
        outputs.append([])
        for shape in emitter.sharding.part_shapes(value.shape, value.placement):
            outputs[-1].append(next(tensors))
            if not is_handle(value.dtype):
                outputs[-1][-1].set_shape(shape)
    return outputs


def _function(emitter: Emitter, body: Body, tensors: Outputs, is_repeated: bool = False) -> Any:
    """Make a function of a body, with an argument for each tensor of each value.

    If it `is_repeated`, it returns what it was given beside these.
    """
    specs = [spec for value in body.arguments for spec in _specs(emitter, value)]
    specs += [tf.TensorSpec([], t.dtype) for t in emitter.sharding.arguments]

    def function(*flat: tf.Tensor) -> list[tf.Tensor]:
        others = flat[len(flat) - len(emitter.sharding.arguments) :]
        inner = emitter.of_body(emitter.sharding.within(others))
        given = iter(flat)
        arguments = arguments_of(body, [[next(given) for _ in parts] for parts in tensors])
        results = inner.reshard_all(run_in_order(inner, body, arguments), body.outputs)
        return [*_flat(results), *(others if is_repeated else [])]

    made = tf.function(function, autograph=False).get_concrete_function(*specs)
    captured = made.captured_inputs
    assert not captured, f"The body of a loop or branch captures {captured}."
    emitter.keep(made)
    return made


def _specs(emitter: Emitter, value: Value) -> list[tf.TensorSpec]:
    shapes = emitter.sharding.part_shapes(value.shape, value.placement)
    return [tf.TensorSpec([] if is_handle(value.dtype) else s, value.dtype) for s in shapes]


def _region(emitter: Emitter, step: plan.Region, inputs: Sequence[Emitted]) -> Outputs:
    """Make the body once for each replica, as if the replica's rows were the whole batch."""
    resharded = emitter.reshard_all(inputs, step.demands)
    bodies = dict(zip(step.replica_rows, step.bodies, strict=True))
    outputs: list[list[tf.Tensor]] = [[] for _ in step.outputs]
    for place, (replica, k) in enumerate(emitter.sharding.each):
        body = bodies[ANY_ROWS if emitter.sharding.is_for_any else k]
        alone, scope = BatchSharding(Replicas(0, 1, 1), k), f"{step.node.name}/replica_{replica}/"
        inner = Emitter(alone, NoExchange(), emitter.keep, scope=scope)
        inner.draws_whole = emitter.draws_whole
        parts = [
            emitter.for_lanes(tensors[0]) if is_shared(placement) else tensors[place]
            for tensors, placement in zip(resharded, step.demands, strict=True)
        ]
        for i in step.weighted:
            parts[i] = parts[i] * emitter.sharding.share(k, parts[i].dtype)
        arguments = arguments_of(body, [[part] for part in parts])
        for output, emitted in zip(outputs, run_in_order(inner, body, arguments), strict=True):
            output.append(inner.reshard(emitted, emitted.value.placement)[0])
    pairs = zip(outputs, step.outputs, strict=True)
    return [tensors[:1] if is_shared(value.placement) else tensors for tensors, value in pairs]


def _flat(tensors: Outputs) -> list[tf.Tensor]:
    return [t for parts in tensors for t in parts]


def _local_name(name: str) -> str:
    return name.rsplit("/", 1)[-1].lstrip("_")


_EMITTERS: dict[type[Step], Callable[[Emitter, Any, Sequence[Emitted]], Outputs]] = {
    plan.Accumulated: _accumulated,
    plan.Branch: _branch,
    plan.Check: _check,
    plan.Count: _count,
    plan.Loop: _loop,
    plan.Broadcast: _broadcast,
    plan.Region: _region,
}
