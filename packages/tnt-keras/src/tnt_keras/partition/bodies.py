"""What lanes do for one node of the traced graph: operations, loops, branches and regions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tnt_keras.partition.effects import OUTPUT
from tnt_keras.partition.emission import Emission
from tnt_keras.partition.emitted import Emitted, OnDemand
from tnt_keras.partition.flat_graph import Edge, users_line
from tnt_keras.partition.lanes import Lanes
from tnt_keras.partition.operations import create_operation
from tnt_keras.partition.placement import PARTIAL, REPLICATED, Rows, is_shared
from tnt_keras.partition.plan import (
    Accumulated,
    Alias,
    Body,
    Branch,
    Check,
    Compute,
    Count,
    Cut,
    Known,
    Loop,
    OnFirst,
    Region,
    Step,
)
from tnt_keras.partition.requests import Request
from tnt_keras.partition.reshard import Layout
from tnt_keras.partition.row_numbers import ANY_ROWS, static
from tnt_keras.partition.rules.registry import Decision
from tnt_keras.partition.seeded_draws import seeded_draw
from tnt_keras.partition.value import Value


def emit(emission: Emission, step: Step, inputs: Sequence[Emitted]) -> Sequence[Emitted]:
    """Make the operations of a step, and return its outputs.

    Args:
        emission: Makes them, in the graph that is being built.
        step: What lanes do for the node.
        inputs: Inputs of the node. What has not been exchanged yet is exchanged now, and blocks.
    """
    match step:
        case Alias():
            return inputs
        case Known():
            return [Emitted(value, None, step.node) for value in step.outputs]
        case Compute(on_demand=True):
            source = OnDemand(step, tuple(inputs))
            return [Emitted(step.outputs[0], None, step.node, source)]
        case Compute():
            return _emitted(step, emission.compute(step, inputs))
        case Cut():
            return [_with_rows(emission, step, inputs)]
        case _:
            return _emitted(step, _EMITTERS[type(step)](emission, step, inputs))


def run_in_order(emission: Emission, body: Body, arguments: Sequence[Emitted]) -> list[Emitted]:
    """Make the operations of a body in the order of the trace. Collective if it exchanges values.

    Every exchange blocks.

    Returns:
        The outputs, not yet brought to the placements that the body demands.
    """
    emitted: dict[Edge, Emitted] = {
        (node, 0): e for node, e in zip(body.flat.arguments, arguments, strict=True)
    }
    for step in body.steps:
        inputs = [emitted[edge] for edge in step.node.inputs]
        for i, made in enumerate(emit(emission, step, inputs)):
            emitted[step.node, i] = made
    return [emitted[edge] for edge in body.flat.outputs]


def _emitted(step: Step, outputs: Sequence[Sequence[tf.Tensor]]) -> list[Emitted]:
    return [
        Emitted(value, tensors, step.node)
        for value, tensors in zip(step.outputs, outputs, strict=True)
    ]


def _with_rows(emission: Emission, step: Cut, inputs: Sequence[Emitted]) -> Emitted:
    """Compute a value whole. It can be read both whole and as rows, without an exchange."""
    [rows] = step.outputs
    whole = rows.placed(REPLICATED)
    decision = Decision(step.demands, (REPLICATED,))
    compute = Compute(step.node, step.inputs, step.demands, (whole,), decision, False, False)
    emitted = Emitted(rows, None, step.node)
    [emitted.tensors[REPLICATED]] = emission.compute(compute, inputs)
    return emitted


def _on_first(emission: Emission, step: Any, inputs: Sequence[Emitted]) -> list[list[tf.Tensor]]:
    """Run an operation on rank 0, and return its outputs on all ranks.

    What may change a resource, such as a variable or an iterator, runs on the others too, and so
    does what goes through a dataset, whose functions may: each process has its own.
    """
    node = step.node
    operands = [emission.bring(e, p)[0] for e, p in zip(inputs, step.demands, strict=True)]
    has_state = node.type not in OUTPUT and any(
        v.dtype in (tf.resource, tf.variant) for v in step.inputs
    )
    outputs = [tf.zeros([0], dtype) for dtype in node.dtypes]
    if has_state or emission.layout.lanes.first == 0:
        with emission.after(node):
            if node in emission.draw_counters:
                operation = seeded_draw(node, operands, emission.draw_counters[node]).op
            else:
                attributes = {k: v for k, v in node.attributes.proto.items() if k[0] != "_"}
                operation = create_operation(
                    node.type, operands, node.dtypes, node.name, attributes
                )
        emission.operations[node] = [operation]
        if not has_state:
            emission.alone.add(operation.name)
        outputs = list(operation.outputs)
    if node.type in OUTPUT:
        return [[t] for t in outputs]
    results = []
    for tensor, value in zip(outputs, step.outputs, strict=True):
        request = Request("broadcast", tensor, node.name, users_line(node), False)
        result = emission.blocking(request)
        result.set_shape(static(value.shape))
        results.append([result])
    return results


def _check(emission: Emission, step: Any, inputs: Sequence[Emitted]) -> list[list[tf.Tensor]]:
    brought = [emission.bring(e, p) for e, p in zip(inputs, step.demands, strict=True)]
    lanes = 1 if all(is_shared(p) for p in step.demands) else emission.layout.lanes.count
    attributes = {k: v for k, v in step.node.attributes.proto.items() if k[0] != "_"}
    with emission.after(step.node):
        for lane in range(lanes):
            operands = [tensors[min(lane, len(tensors) - 1)] for tensors in brought]
            operation = create_operation(step.node.type, operands, [], step.node.name, attributes)
            emission.operations.setdefault(step.node, []).append(operation)
    return []


def _accumulated(emission: Emission, step: Any, inputs: Sequence[Emitted]) -> list[list[tf.Tensor]]:
    """Read or assign the addend of this process, which counts as that of its first lane."""
    node, layout = step.node, emission.layout
    [handle] = emission.bring(inputs[0], step.demands[0])
    operands = [handle]
    if len(inputs) == 2:
        parts = emission.bring(inputs[1], PARTIAL)
        operands.append(layout.reduced(parts, "sum"))
    with emission.after(node):
        attributes = {k: v for k, v in node.attributes.proto.items() if k[0] != "_"}
        operation = create_operation(node.type, operands, node.dtypes, node.name, attributes)
    emission.operations[node] = [operation]
    return [[t, *(tf.zeros_like(t) for _ in layout.lane_rows[1:])] for t in operation.outputs]


def _count(emission: Emission, step: Any, inputs: Sequence[Emitted]) -> list[list[tf.Tensor]]:
    """Compute shapes and sizes of whole values: those of a lane's part, with `N` rows for `k`."""
    layout, node = emission.layout, step.node
    k, num_rows = layout.lane_rows[0], layout.num_rows
    outputs = []
    for emitted, placement, dtype in zip(inputs, step.demands, node.dtypes, strict=True):
        part = emission.bring(emitted, placement)[0]
        is_size = node.type == "Size"
        numbers = (tf.size if is_size else tf.shape)(part, out_type=dtype)
        if isinstance(placement, Rows):
            rank = tf.size(numbers) if part.shape.rank is None else part.shape.rank
            counts = is_size or tf.range(rank) == placement.axis
            whole = numbers // tf.cast(k, dtype) * tf.cast(num_rows, dtype)
            numbers = tf.where(counts, whole, numbers)
        outputs.append([numbers])
    return outputs


def _loop(emission: Emission, step: Any, inputs: Sequence[Emitted]) -> list[list[tf.Tensor]]:
    brought = [emission.bring(e, p) for e, p in zip(inputs, step.demands, strict=True)]
    before = emission.num_blocking
    body = _function(emission, step.body, brought, is_repeated=True)
    condition = _function(emission, step.condition, brought)
    blocks = emission.num_blocking > before
    node = step.node
    make = tf.raw_ops.While if blocks or node.type == "While" else tf.raw_ops.StatelessWhile

    def loop() -> list[tf.Tensor]:
        return list(
            make(
                input=[*_flat(brought), *emission.layout.arguments],
                cond=condition,
                body=body,
                # Not those of the inputs: an iteration may give a variable another size.
                output_shapes=_output_shapes(emission, step.body),
                parallel_iterations=1 if blocks else node.attributes["parallel_iterations"],
                name=_local_name(node.name),
            )
        )

    return _made(emission, step, loop, blocks)


def _branch(emission: Emission, step: Any, inputs: Sequence[Emitted]) -> list[list[tf.Tensor]]:
    if len(step.bodies) == 1:
        return _inlined(emission, step, inputs[1:])
    brought = [emission.bring(e, p) for e, p in zip(inputs, step.demands, strict=True)]
    before = emission.num_blocking
    functions = [_function(emission, body, brought[1:]) for body in step.bodies]
    blocks = emission.num_blocking > before
    node = step.node
    is_case = node.type.endswith("Case")
    kind = "Case" if is_case else "If"
    name = kind if blocks or node.type == kind else f"Stateless{kind}"
    chosen = (
        {"branches": functions}
        if is_case
        else dict(zip(("then_branch", "else_branch"), functions, strict=True))
    )
    chosen["branch_index" if is_case else "cond"] = brought[0][0]
    types = [t.dtype for t in functions[0].outputs]

    def branch() -> Any:
        made = getattr(tf.raw_ops, name)(
            input=[*_flat(brought[1:]), *emission.layout.arguments],
            Tout=types,
            output_shapes=[],
            name=_local_name(node.name),
            **chosen,
        )
        return [made] if isinstance(made, tf.Operation | tf.Tensor) else list(made)

    return _made(emission, step, branch, blocks)


def _inlined(emission: Emission, step: Any, arguments: Sequence[Emitted]) -> list[list[tf.Tensor]]:
    """Make the one branch that is ever taken in the place of the operation."""
    [body] = step.bodies
    inner = emission.of_body(emission.layout)
    with emission.after(step.node):
        results = run_in_order(inner, body, arguments)
        outputs = [inner.bring(e, p) for e, p in zip(results, body.outputs, strict=True)]
    emission.num_blocking = inner.num_blocking
    emission.operations[step.node] = [
        operation
        for node, operations in inner.operations.items()
        if node.has_effect
        for operation in operations
    ]
    return outputs


def _made(
    emission: Emission, step: Any, make: Callable[[], list[Any]], blocks: bool
) -> list[list[tf.Tensor]]:
    """Make a loop or branch, and return its outputs by value and lane.

    One that holds exchanges takes its place in the order of all exchanges.
    """
    with emission.after(step.node):
        made = emission.exchange.ordered(make) if blocks else make()
    if made:
        first = made[0]
        emission.operations[step.node] = [first.op if isinstance(first, tf.Tensor) else first]
    tensors = iter(t for t in made if isinstance(t, tf.Tensor))
    outputs = []
    for value in step.outputs:
        shapes = _local_shapes(emission, value)
        outputs.append([_shaped(next(tensors), value, shape) for shape in shapes])
    return outputs


def _function(
    emission: Emission,
    body: Body,
    tensors: Sequence[Sequence[tf.Tensor]],
    is_repeated: bool = False,
) -> Any:
    """Make a function of a body. It takes an argument for each tensor of each value.

    If it `is_repeated`, it returns what it was given beside these.
    """
    specs = []
    for value, parts in zip(body.arguments, tensors, strict=True):
        shapes = _local_shapes(emission, value)
        assert len(shapes) == len(parts)
        is_handle = value.dtype in (tf.resource, tf.variant)
        specs += [tf.TensorSpec([] if is_handle else s, value.dtype) for s in shapes]

    specs += [tf.TensorSpec([], t.dtype) for t in emission.layout.arguments]

    def function(*flat: tf.Tensor) -> list[tf.Tensor]:
        others = flat[len(flat) - len(emission.layout.arguments) :]
        inner = emission.of_body(emission.layout.within(others))
        given = iter(flat)
        arguments = [
            Emitted(value, [next(given) for _ in parts], node)
            for value, parts, node in zip(body.arguments, tensors, body.flat.arguments, strict=True)
        ]
        outputs = run_in_order(inner, body, arguments)
        results = [inner.bring(e, p) for e, p in zip(outputs, body.outputs, strict=True)]
        emission.num_blocking = inner.num_blocking
        return [*_flat(results), *(others if is_repeated else [])]

    made = tf.function(function, autograph=False).get_concrete_function(*specs)
    assert not made.captured_inputs, (
        f"The body of a loop or branch captures {made.captured_inputs}."
    )
    emission.keep(made)
    return made


def _local_shapes(emission: Emission, value: Value) -> list[Any]:
    layout = emission.layout
    if is_shared(value.placement):
        return [static(value.shape)]
    return [layout.part_shape(value.shape, value.placement, k) for k in layout.lane_rows]


def _output_shapes(emission: Emission, body: Body) -> list[tf.TensorShape]:
    shapes = [
        tf.TensorShape([] if value.dtype in (tf.resource, tf.variant) else shape)
        for value in body.arguments
        for shape in _local_shapes(emission, value)
    ]
    return shapes + [tensor.shape for tensor in emission.layout.arguments]


def _shaped(tensor: tf.Tensor, value: Value, shape: Any) -> tf.Tensor:
    if value.dtype not in (tf.resource, tf.variant):
        tensor.set_shape(shape)
    return tensor


def _region(emission: Emission, step: Any, inputs: Sequence[Emitted]) -> list[list[tf.Tensor]]:
    """Make the body once for each lane, as if the lane's rows were the whole batch."""
    brought = [emission.bring(e, p) for e, p in zip(inputs, step.demands, strict=True)]
    lanes = list(zip(emission.layout.lanes.numbers, emission.layout.lane_rows, strict=True))
    outputs: list[list[tf.Tensor]] = [[] for _ in step.outputs]
    for place, (lane, k) in enumerate(lanes):
        body = step.bodies[ANY_ROWS if emission.layout.is_for_any else k]
        inner = emission.of_lane(Layout(Lanes(0, 1, 1), k), f"{step.node.name}/lane_{lane}")
        parts = [tensors[0 if len(tensors) == 1 else place] for tensors in brought]
        for i in step.weighted:
            parts[i] = parts[i] * emission.layout.share(k, parts[i].dtype)
        arguments = [
            Emitted(value, [part], node)
            for value, part, node in zip(body.arguments, parts, body.flat.arguments, strict=True)
        ]
        for output, emitted in zip(outputs, run_in_order(inner, body, arguments), strict=True):
            output.append(inner.bring(emitted, emitted.value.placement)[0])
    return [
        tensors[:1] if is_shared(value.placement) else tensors
        for tensors, value in zip(outputs, step.outputs, strict=True)
    ]


def _flat(tensors: Sequence[Sequence[tf.Tensor]]) -> list[tf.Tensor]:
    return [t for parts in tensors for t in parts]


def _local_name(name: str) -> str:
    return name.rsplit("/", 1)[-1].lstrip("_")


_EMITTERS: dict[type[Step], Callable[[Emission, Any, Sequence[Emitted]], list[list[tf.Tensor]]]] = {
    Accumulated: _accumulated,
    Branch: _branch,
    Check: _check,
    Count: _count,
    Loop: _loop,
    OnFirst: _on_first,
    Region: _region,
}
