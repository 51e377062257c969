"""One operation in lanes, by its rule alone: no traced step, no walk, no ranks.

`assert_rule` makes an operation twice in one graph: whole, and in lanes as its rule decides. The
inputs of the lanes are cut from the whole ones, outputs are put together by their placements, and
both must be equal. This is what every rule promises.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig
from tnt_keras.partition import rules
from tnt_keras.partition.operations import Attributes, attribute, attributes_of, create
from tnt_keras.partition.placement import (
    HANDLE,
    REPLICATED,
    Partial,
    Placement,
    Replicated,
    Rows,
    local_shape,
)
from tnt_keras.partition.rules.registry import Decision, Operation, Output, entry_of
from tnt_keras.partition.value import Value

_FOLD = {
    "sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum,
    "and": np.logical_and, "or": np.logical_or,
}  # fmt: skip


def lane_rows(num_rows: int, lane: int, lanes: int) -> int:
    return len(range(lane, num_rows, lanes))


def cut(array: np.ndarray[Any, Any], rows: Rows, num_rows: int, lane: int, lanes: int) -> Any:
    """The part of a whole array that a lane has, straight from the definition of `Rows`."""
    before, after = array.shape[: rows.axis], array.shape[rows.axis + 1 :]
    whole = array.reshape(*before, rows.outer, num_rows, rows.inner, *after)
    part = whole[(slice(None),) * (len(before) + 1) + (slice(lane, None, lanes),)]
    return part.reshape(*before, -1 if part.size else rows.outer * lane_rows(num_rows, lane, lanes) * (rows.inner or 0), *after)


def put_together(parts: Sequence[Any], placement: Placement, num_rows: int) -> Any:
    """The whole array of the parts of all lanes."""
    lanes = len(parts)
    match placement:
        case Replicated():
            for part in parts[1:]:
                np.testing.assert_array_equal(part, parts[0])
            return parts[0]
        case Partial(reduction):
            total = parts[0]
            for part in parts[1:]:
                total = _FOLD[reduction](total, part)
            return total
        case Rows(axis, outer, inner):
            before, after = parts[0].shape[:axis], parts[0].shape[axis + 1 :]
            whole = np.empty((*before, outer, num_rows, inner, *after), parts[0].dtype)
            for lane, part in enumerate(parts):
                k = lane_rows(num_rows, lane, lanes)
                place = (slice(None),) * (len(before) + 1) + (slice(lane, None, lanes),)
                whole[place] = part.reshape(*before, outer, k, inner, *after)
            return whole.reshape(*before, outer * num_rows * (inner or 0), *after)
    raise AssertionError(placement)


def addends(array: np.ndarray[Any, Any], lane: int, lanes: int) -> Any:
    """A lane's operand of a total: all are different, and their sum is exact in floats."""
    if lane == lanes - 1:
        return array - sum(addends(array, other, lanes) for other in range(lane))
    return np.full_like(array, 2 + lane) if lane % 2 else np.full_like(array, -3 - lane)


def decide(operation: Operation) -> Decision | None:
    """The decision for an operation, None if it is computed by all lanes alike."""
    entry = entry_of(operation.type)
    if entry is None:
        return None
    count = len(operation.inputs)
    replicated = {i % count for i in entry.replicated if -count <= i < count}

    def seen(i: int, value: Value) -> Value:
        is_linear = entry.linear is None or i in entry.linear
        if i in replicated or isinstance(value.placement, Partial) and (value.placement != Partial() or not is_linear):
            return value.placed(REPLICATED)
        return value

    values = tuple(seen(i, v) for i, v in enumerate(operation.inputs))
    if all(v.placement in (REPLICATED, HANDLE) for v in values):
        return None
    return entry.rule(
        Operation(operation.type, values, operation.outputs, operation.num_rows, operation.attributes)
    )


def run_rule(
    make: Callable[..., Any],
    arguments: Sequence[Any],
    placements: Sequence[Placement],
    num_rows: int,
    lanes: int,
    *,
    constants: Sequence[bool] | None = None,
    operation_type: str | None = None,
    attributes: Mapping[str, Any] | None = None,
) -> tuple[Decision | None, list[Any], list[Any]]:
    """Compute an operation whole and in lanes. -> decision, whole outputs, outputs of the lanes together.

    Args:
        make: Called with tensors; makes the operation (and perhaps others before it, which may only
            be constants): `tf.raw_ops` or a public function.
        arguments: Arrays, in the order of the operation's inputs.
        placements: Of the inputs of the operation, in the order of `arguments`.
        num_rows: Rows of the batch.
        lanes: How many.
        constants: Which arguments the rule may read; by default integers and booleans of small size
            that are replicated.
    """
    del attributes
    assert rules
    arrays = [np.asarray(a) for a in arguments]
    known = constants or [p == REPLICATED and a.dtype.kind in "iub" and a.size < 100 for a, p in zip(arrays, placements, strict=True)]
    graph = tf.Graph()
    with graph.as_default():
        feeds = [tf.compat.v1.placeholder(a.dtype, a.shape) if not k else tf.constant(a) for a, k in zip(arrays, known, strict=True)]
        made = make(*feeds)
        first = next(t for t in tf.nest.flatten(made) if t is not None)
        op = first.op
        if operation_type is not None:
            op = next(o for o in graph.get_operations() if o.type == operation_type)
        order = [next((i for i, f in enumerate(feeds) if f is t), None) for t in op.inputs]
        values, sources = [], []
        for place, tensor in zip(order, op.inputs, strict=True):
            array = tf.get_static_value(tensor) if place is None else arrays[place]
            placement = REPLICATED if place is None else placements[place]
            is_known = place is None or known[place]
            assert array is not None, f"{tensor} is no argument"
            sources.append(np.asarray(array))
            values.append(Value(placement, tuple(np.shape(array)), tensor.dtype, np.asarray(array) if is_known else None))
    with _session(graph) as session:
        whole = session.run(list(op.outputs), {f: a for f, a, k in zip(feeds, arrays, known, strict=True) if not k})
    outputs = tuple(Output(_shape(o, w), o.dtype) for w, o in zip(whole, op.outputs, strict=True))
    protos = attributes_of(graph)[op.name]
    decision = decide(Operation(op.type, tuple(values), outputs, num_rows, Attributes(protos)))
    if decision is None:
        return None, whole, whole
    parts = [_lane(op, decision, values, sources, outputs, protos, num_rows, lane, lanes) for lane in range(lanes)]
    together = [put_together([p[j] for p in parts], pl, num_rows) for j, pl in enumerate(decision.outputs)]
    return decision, whole, together


def _session(graph: tf.Graph) -> Any:
    """A session that does not optimise: constants of a lane would be folded."""
    options = tf.compat.v1.GraphOptions(rewrite_options=RewriterConfig(disable_meta_optimizer=True))
    return tf.compat.v1.Session(graph=graph, config=tf.compat.v1.ConfigProto(graph_options=options))


def _shape(tensor: Any, array: Any) -> Any:
    """The shape that the shape function says; that of the result where it does not know."""
    return tuple(tensor.shape if tensor.shape.is_fully_defined() else np.shape(array))


def _lane(op: Any, decision: Decision, values: Any, sources: Any, outputs: Any, protos: Any, num_rows: int, lane: int, lanes: int) -> Any:
    k = lane_rows(num_rows, lane, lanes)
    operands = []
    for i, (value, array, wanted) in enumerate(zip(values, sources, decision.inputs, strict=True)):
        operand = decision.constants.get(i, array)
        if i in decision.counts_rows:
            flat = [int(x) // num_rows * k if c and x > 0 else int(x) for x, c in zip(np.ravel(operand), decision.counts_rows[i], strict=True)]
            assert all(x % num_rows == 0 for x, c in zip(np.ravel(operand), decision.counts_rows[i], strict=True) if c and x > 0)
            operand = np.asarray(flat, array.dtype).reshape(np.shape(operand))
        match wanted:
            case Rows():
                operand = cut(np.asarray(operand), wanted, num_rows, lane, lanes)
            case Partial():
                operand = addends(array, lane, lanes) if value.placement == wanted else (array if lane == 0 else np.zeros_like(array))
        operands.append(operand)
    graph = tf.Graph()
    with graph.as_default():
        attrs = {**protos, **{n: attribute(v) for n, v in decision.attributes.items()}}
        made = create(decision.type or op.type, [tf.constant(o, v.dtype) for o, v in zip(operands, values, strict=True)], [o.dtype for o in outputs], "op", attrs)
        if decision.weighted:
            made = [t * tf.constant(k / num_rows, t.dtype) if isinstance(p, Partial) else t for t, p in zip(made, decision.outputs, strict=True)]
    for tensor, output, placement in zip(made, outputs, decision.outputs, strict=True):
        expected = local_shape(output.shape, placement, k)
        assert tensor.shape.is_compatible_with(tf.TensorShape(expected)), f"{tensor} has not the shape {expected}"
    with _session(graph) as session:
        return session.run(made)


def assert_rule(make: Callable[..., Any], arguments: Sequence[Any], placements: Sequence[Placement], num_rows: int, lanes: int, *, is_ruled: bool | None = True, rtol: float = 1e-5, **options: Any) -> Decision | None:
    """Assert that an operation in lanes gives what it gives whole, and whether a rule applies.

    Args:
        is_ruled: Whether a rule must apply (True), must say no (False), or either (None).
    """
    decision, whole, together = run_rule(make, arguments, placements, num_rows, lanes, **options)
    if is_ruled is not None:
        assert (decision is not None) == is_ruled, f"decision: {decision}"
    for a, b in zip(whole, together, strict=True):
        assert np.shape(a) == np.shape(b), (np.shape(a), np.shape(b), decision)
        if np.asarray(a).dtype.kind in "fc":
            np.testing.assert_allclose(b, a, rtol=rtol, atol=rtol, err_msg=str(decision))
        else:
            np.testing.assert_array_equal(b, a, err_msg=str(decision))
    return decision


def all_rows_placements(shape: Sequence[int], num_rows: int) -> list[Rows]:
    """Every placement with rows that an array of this shape can have."""
    found = []
    for axis, size in enumerate(shape):
        if size % num_rows == 0 and size:
            rest = size // num_rows
            found += [Rows(axis, outer, rest // outer) for outer in range(1, rest + 1) if rest % outer == 0]
    return found


def combinations(*choices: Sequence[Any]) -> Any:
    """All combinations, for parametrised tests."""
    return itertools.product(*choices)
