"""What a process does for each node of the traced graph, as the plan says.

Bodies of loops, branches and local regions are made in the order of the trace, and every exchange
in them blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

from tnt_keras.partition import plan
from tnt_keras.partition.emitter import Emitted, Emitter
from tnt_keras.partition.graph import Edge, users_line
from tnt_keras.partition.operations import OUTPUT, is_handle
from tnt_keras.partition.plan import Body, Step
from tnt_keras.partition.random_ops import seeded_draw
from tnt_keras.partition.reshard import BatchSharding, NoExchange, Replicas, Request, scaled
from tnt_keras.partition.rules.registry import Decision
from tnt_keras.partition.value import ANY_ROWS, REPLICATED, Sharded, Value, is_shared, static

Outputs: TypeAlias = Sequence[Sequence[tf.Tensor]]
"""The tensors of values, for each replica."""


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
        case plan.Alias():
            return inputs
        case plan.Known():
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
            emitter.alone.add(operation.name)
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
        part = emitter.reshard(emitted, placement)[0]
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
    with emitter.after(step.node):
        made = emitter.exchange.ordered(make) if blocks else make()
    if made:
        first = made[0]
        emitter.operations[step.node] = [first.op if isinstance(first, tf.Tensor) else first]
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
        parts = [tensors[0 if len(tensors) == 1 else place] for tensors in resharded]
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
