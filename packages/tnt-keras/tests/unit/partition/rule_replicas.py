"""One operation in replicas, by its rule alone: no traced step, no walk, no ranks.

`assert_rule` makes an operation twice in one graph: whole, and in replicas as its rule decides. The
inputs of the replicas are cut from the whole ones, outputs are put together by their placements,
and both must be equal. This is what every rule promises.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig

from tnt_keras.partition.operations import Attributes, attribute, attributes_of, create
from tnt_keras.partition.rules.registry import Decision, Operation, entry_of
from tnt_keras.partition.value import (
    HANDLE,
    REPLICATED,
    Partial,
    Placement,
    Replicated,
    Sharded,
    Value,
    local_shape,
)

_FOLD = {
    "sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum,
    "and": np.logical_and, "or": np.logical_or,
}  # fmt: skip


def replica_rows(num_rows: int, replica: int, replicas: int) -> int:
    return len(range(replica, num_rows, replicas))


def cut(
    array: np.ndarray[Any, Any], rows: Sharded, num_rows: int, replica: int, replicas: int
) -> Any:
    """The part of a whole array that a replica has, straight from the definition of `Sharded`."""
    before, after = array.shape[: rows.axis], array.shape[rows.axis + 1 :]
    assert rows.inner is not None
    whole = array.reshape(*before, rows.outer, num_rows, rows.inner, *after)
    part = whole[(slice(None),) * (len(before) + 1) + (slice(replica, None, replicas),)]
    k = replica_rows(num_rows, replica, replicas)
    return part.reshape(*before, rows.outer * k * rows.inner, *after)


def put_together(parts: Sequence[Any], placement: Placement, num_rows: int) -> Any:
    """The whole array of the parts of all replicas."""
    replicas = len(parts)
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
        case Sharded(axis, outer, inner):
            before, after = parts[0].shape[:axis], parts[0].shape[axis + 1 :]
            whole = np.empty((*before, outer, num_rows, inner, *after), parts[0].dtype)
            for replica, part in enumerate(parts):
                k = replica_rows(num_rows, replica, replicas)
                place = (slice(None),) * (len(before) + 1) + (slice(replica, None, replicas),)
                whole[place] = part.reshape(*before, outer, k, inner, *after)
            return whole.reshape(*before, outer * num_rows * (inner or 0), *after)
    raise AssertionError(placement)


def partial_sums(array: np.ndarray[Any, Any], replica: int, replicas: int) -> Any:
    """A replica's operand of a total: all are different, and their sum is exact in floats."""
    if replica == replicas - 1:
        return array - sum(partial_sums(array, other, replicas) for other in range(replica))
    return np.full_like(array, 2 + replica) if replica % 2 else np.full_like(array, -3 - replica)


def decide(operation: Operation) -> Decision | None:
    """The decision for an operation, None if it is computed by all replicas alike."""
    entry = entry_of(operation.type)
    if entry is None:
        return None
    count = len(operation.inputs)
    replicated = {i % count for i in entry.replicated if -count <= i < count}

    def seen(i: int, value: Value) -> Value:
        is_linear = entry.linear is None or i in entry.linear
        is_reduced = isinstance(value.placement, Partial) and not (
            value.placement == Partial() and is_linear
        )
        return value.placed(REPLICATED) if i in replicated or is_reduced else value

    values = tuple(seen(i, v) for i, v in enumerate(operation.inputs))
    if all(v.placement in (REPLICATED, HANDLE) for v in values):
        return None
    return entry.rule(dataclasses.replace(operation, inputs=values))


def run_rule(
    make: Callable[..., Any],
    arguments: Sequence[Any],
    placements: Sequence[Placement],
    num_rows: int,
    replicas: int,
    *,
    constants: Sequence[bool] | None = None,
    operation_type: str | None = None,
) -> tuple[Decision | None, list[Any], list[Any]]:
    """Compute an operation whole and in replicas.

    Args:
        make: Called with tensors. Makes the operation, by `tf.raw_ops` or a public function. It may
            make constants before.
        arguments: Arrays, in the order of the operation's inputs.
        placements: Placements of the inputs, in the order of `arguments`.
        num_rows: Rows of the batch.
        replicas: The number of replicas.
        constants: Which arguments the rule may read; by default small integers and booleans that
            are replicated.
        operation_type: The type of the operation, if `make` makes others after it.

    Returns:
        The decision, the outputs of the whole operation, and those of the replicas put together.
    """
    arrays = [np.asarray(a) for a in arguments]
    known = constants or [
        p == REPLICATED and a.dtype.kind in "iub" and a.size < 100
        for a, p in zip(arrays, placements, strict=True)
    ]
    operation, inputs, whole = _run_whole(make, arrays, placements, num_rows, known, operation_type)
    decision = decide(operation)
    if decision is None:
        return None, whole, whole
    parts = [
        _replica(operation, inputs, decision, replica, replicas) for replica in range(replicas)
    ]
    together = [
        put_together([part[j] for part in parts], placement, num_rows)
        for j, placement in enumerate(decision.outputs)
    ]
    return decision, whole, together


def _run_whole(
    make: Callable[..., Any],
    arrays: Sequence[np.ndarray[Any, Any]],
    placements: Sequence[Placement],
    num_rows: int,
    known: Sequence[bool],
    operation_type: str | None,
) -> tuple[Operation, list[_Input], list[Any]]:
    """The operation as a rule sees it, its inputs, and the outputs of the whole operation."""
    graph = tf.Graph()
    with graph.as_default():
        feeds = [
            tf.constant(a) if k else tf.compat.v1.placeholder(a.dtype, a.shape)
            for a, k in zip(arrays, known, strict=True)
        ]
        made = make(*feeds)
        op = next(t for t in tf.nest.flatten(made) if t is not None).op
        if operation_type is not None:
            op = next(o for o in graph.get_operations() if o.type == operation_type)
        inputs = [_Input.of(t, feeds, arrays, placements, known) for t in op.inputs]
    fed = {f: a for f, a, k in zip(feeds, arrays, known, strict=True) if not k}
    with _session(graph) as session:
        whole = session.run(list(op.outputs), fed)
    outputs = tuple(
        Value(REPLICATED, _shape(o, w), o.dtype) for w, o in zip(whole, op.outputs, strict=True)
    )
    attributes = Attributes(attributes_of(graph)[op.name])
    operation = Operation(op.type, tuple(i.value for i in inputs), outputs, num_rows, attributes)
    return operation, inputs, whole


@dataclasses.dataclass(frozen=True)
class _Input:
    """An input of the whole operation: what a rule sees of it, and what it holds."""

    value: Value
    array: np.ndarray[Any, Any]

    @classmethod
    def of(
        cls,
        tensor: Any,
        feeds: Sequence[Any],
        arrays: Sequence[np.ndarray[Any, Any]],
        placements: Sequence[Placement],
        known: Sequence[bool],
    ) -> _Input:
        """The input that is one of the arguments, or a constant that was made besides."""
        place = next((i for i, feed in enumerate(feeds) if feed is tensor), None)
        found = tf.get_static_value(tensor) if place is None else arrays[place]
        assert found is not None, f"{tensor} is no argument"
        array = np.asarray(found)
        placement = REPLICATED if place is None else placements[place]
        constant = array if place is None or known[place] else None
        return cls(Value(placement, array.shape, tensor.dtype, constant), array)


def _session(graph: tf.Graph) -> Any:
    """A session that does not optimise: constants of a replica would be folded."""
    options = tf.compat.v1.GraphOptions(rewrite_options=RewriterConfig(disable_meta_optimizer=True))
    return tf.compat.v1.Session(graph=graph, config=tf.compat.v1.ConfigProto(graph_options=options))


def _shape(tensor: Any, array: Any) -> Any:
    """The shape that the shape function says; that of the result where it does not know."""
    return tuple(tensor.shape if tensor.shape.is_fully_defined() else np.shape(array))


def _replica(
    operation: Operation, inputs: Sequence[_Input], decision: Decision, replica: int, replicas: int
) -> Any:
    """The outputs of the operation in one replica."""
    num_rows, attributes = operation.num_rows, operation.attributes
    assert isinstance(attributes, Attributes)
    k = replica_rows(num_rows, replica, replicas)
    graph = tf.Graph()
    with graph.as_default():
        operands = [
            tf.constant(
                _operand(i, given, decision, num_rows, replica, replicas), given.value.dtype
            )
            for i, given in enumerate(inputs)
        ]
        changed = {name: attribute(value) for name, value in decision.attributes.items()}
        made = create(
            operation.type,
            operands,
            [output.dtype for output in operation.outputs],
            "op",
            {**attributes.proto, **changed},
        ).outputs
        if decision.weighted:
            made = [
                t * tf.constant(k / num_rows, t.dtype) if isinstance(p, Partial) else t
                for t, p in zip(made, decision.outputs, strict=True)
            ]
    for tensor, output, placement in zip(made, operation.outputs, decision.outputs, strict=True):
        expected = tf.TensorShape(local_shape(output.shape, placement, k))
        assert tensor.shape.is_compatible_with(expected), f"{tensor} has not the shape {expected}"
    with _session(graph) as session:
        return session.run(made)


def _operand(
    i: int, given: _Input, decision: Decision, num_rows: int, replica: int, replicas: int
) -> Any:
    """What one replica has of an input, as the decision demands."""
    array, wanted = given.array, decision.inputs[i]
    operand = decision.constants.get(i, array)
    if i in decision.counts_rows:
        k = replica_rows(num_rows, replica, replicas)
        flat = []
        for number, counts in zip(np.ravel(operand).tolist(), decision.counts_rows[i], strict=True):
            is_multiple = counts and number > 0
            assert not is_multiple or number % num_rows == 0
            flat.append(number // num_rows * k if is_multiple else number)
        operand = np.asarray(flat, array.dtype).reshape(np.shape(operand))
    match wanted:
        case Sharded():
            return cut(np.asarray(operand), wanted, num_rows, replica, replicas)
        case Partial() if given.value.placement == wanted:
            return partial_sums(array, replica, replicas)
        case Partial():
            return array if replica == 0 else np.zeros_like(array)
    return operand


def assert_rule(
    make: Callable[..., Any],
    arguments: Sequence[Any],
    placements: Sequence[Placement],
    num_rows: int,
    replicas: int,
    *,
    is_ruled: bool | None = True,
    rtol: float = 1e-5,
    **options: Any,
) -> Decision | None:
    """Assert that an operation in replicas gives what it gives whole, and whether a rule applies.

    Args:
        is_ruled: Whether a rule must apply (True), must say no (False), or either (None).
    """
    decision, whole, together = run_rule(make, arguments, placements, num_rows, replicas, **options)
    if is_ruled is not None:
        assert (decision is not None) == is_ruled, f"decision: {decision}"
    for a, b in zip(whole, together, strict=True):
        assert np.shape(a) == np.shape(b), (np.shape(a), np.shape(b), decision)
        if np.asarray(a).dtype.kind in "fc":
            np.testing.assert_allclose(b, a, rtol=rtol, atol=rtol, err_msg=str(decision))
        else:
            np.testing.assert_array_equal(b, a, err_msg=str(decision))
    return decision


def all_rows_placements(shape: Sequence[int], num_rows: int) -> list[Sharded]:
    """Every placement with rows that an array of this shape can have."""
    found = []
    for axis, size in enumerate(shape):
        if size % num_rows == 0 and size:
            rest = size // num_rows
            outers = [outer for outer in range(1, rest + 1) if rest % outer == 0]
            found += [Sharded(axis, outer, rest // outer) for outer in outers]
    return found
