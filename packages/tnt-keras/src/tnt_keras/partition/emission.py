"""The graph of one process: the operations of the traced step, in each lane of the process."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tnt_keras.partition.analysis import PartitionError, describe
from tnt_keras.partition.draws import is_draw, rows_of_draw
from tnt_keras.partition.emitted import Emitted, bring_list
from tnt_keras.partition.explain import Exchanged, exchanged_value
from tnt_keras.partition.flat_graph import Node, users_line
from tnt_keras.partition.operations import ADDITIONS, attribute, create_operation, sum_of
from tnt_keras.partition.placement import (
    OWN,
    PARTIAL,
    REPLICATED,
    Handle,
    ListOf,
    Partial,
    Placement,
    Rows,
    Shape,
    is_shared,
    local_size,
)
from tnt_keras.partition.plan import Compute
from tnt_keras.partition.requests import Alone, Exchange, Request
from tnt_keras.partition.reshard import Count, Layout, local_sizes
from tnt_keras.partition.row_numbers import static
from tnt_keras.partition.value import Value


class Emission:
    """Makes operations and brings values to placements, in the graph that is being built.

    `updates` are the nodes whose totals reach the update of an optimizer, `own_draws` those of
    which each lane draws rows of its own. `keep` is called with what must live as long as the
    graph.
    """

    def __init__(
        self,
        layout: Layout,
        exchange: Exchange,
        updates: frozenset[Node],
        keep: Callable[[Any], None],
        own_draws: frozenset[Node] = frozenset(),
        scope: str = "",
    ) -> None:
        self.layout = layout
        self.exchange = exchange
        self.keep = keep
        self.num_blocking = 0  # exchanges, in this graph and in bodies
        self.exchanged: list[Exchanged] = []
        self.alone: set[str] = set()  # names of operations that other processes do not run
        self.operations: dict[Node, list[tf.Operation]] = {}  # waited for by what follows a node
        self._updates = updates
        self._own_draws = own_draws
        self.draw_counters: Mapping[Node, tf.Variable] = {}  # how far seeded draws have come
        self._scope = scope
        self._constants: dict[Any, tf.Tensor] = {}

    def of_body(self, layout: Layout) -> Emission:
        """Return the emission for the body of a loop or branch, a function this graph calls."""
        inner = Emission(layout, self.exchange, self._updates, self.keep, self._own_draws)
        inner.num_blocking, inner.exchanged = self.num_blocking, self.exchanged
        inner.alone = self.alone
        return inner

    def of_lane(self, layout: Layout, scope: str) -> Emission:
        """Return the emission for a local region in one lane, whose rows are the whole batch."""
        return Emission(layout, Alone(), self._updates, self.keep, scope=f"{scope}/")

    def blocking(self, request: Request) -> tf.Tensor:
        """Exchange one value now. Collective."""
        self.num_blocking += 1
        return self.exchange.blocking(request)

    # ---------------------------------------------------------------- placements

    def needs_exchange(self, emitted: Emitted, placement: Placement) -> bool:
        """Return whether a value must be exchanged before it can have a placement."""
        held = emitted.value.placement
        if placement in emitted.tensors or held == placement or REPLICATED in emitted.tensors:
            return False
        return (
            not is_shared(held)
            and not isinstance(held, ListOf)
            and not (held == OWN and placement == PARTIAL)
        )

    def request(
        self, emitted: Emitted, level: int | None = None, *, is_last: bool = False
    ) -> Request:
        """Return the request to make a value the same in all lanes; without level it blocks."""
        value, node = emitted.value, emitted.node
        name = node.name if node is not None else "output"
        is_update = is_last and node in self._updates

        def made(kind: str, tensor: tf.Tensor) -> Request:
            self.exchanged.append(exchanged_value(value, node, kind, name, is_update, level))
            return Request(kind, tensor, name, users_line(node), is_update)

        parts = emitted.tensors[value.placement]
        match value.placement:
            case Rows() as rows:
                return made("gather", self.layout.rows_first(parts, value.shape, rows))
            case Partial(reduction):
                return made(reduction, self.layout.reduced(parts, reduction))
            case _:
                return made("sum", self.layout.reduced(self.layout.weighted(parts), "sum"))

    def addend(self, emitted: Emitted) -> tf.Tensor:
        """Return this process' addend of a total, or its share `k / N` of a replicated value."""
        if emitted.value.placement == PARTIAL:
            return self.layout.reduced(emitted.tensors[PARTIAL], "sum")
        whole = self.bring(emitted, REPLICATED)[0]
        share = self.layout.share(sum(self.layout.lane_rows), tf.float64)
        return tf.cast(tf.cast(whole, tf.float64) * share, whole.dtype)

    def received(self, emitted: Emitted, result: tf.Tensor) -> None:
        """Note the result of the exchange of a value."""
        value = emitted.value
        if isinstance(value.placement, Rows):
            result = self.layout.whole(result, value.shape, value.placement)
        result = _with_shape(result, static(value.shape))
        emitted.tensors[REPLICATED] = [result]

    def bring(self, emitted: Emitted, placement: Placement) -> list[tf.Tensor]:
        """Return the tensors of a value in a placement. An exchange that is still due blocks."""
        if placement not in emitted.tensors:
            emitted.tensors[placement] = self._brought(emitted, placement)
        return emitted.tensors[placement]

    def _brought(self, emitted: Emitted, placement: Placement) -> list[tf.Tensor]:
        value = emitted.value
        if isinstance(value.placement, Handle):
            return emitted.tensors[value.placement]
        if isinstance(value.placement, ListOf) and isinstance(placement, ListOf):
            return bring_list(emitted, placement, self.layout, self.bring, self._integers)
        if value.placement == OWN and placement == PARTIAL:
            return self.layout.weighted(emitted.tensors[OWN])
        if self.needs_exchange(emitted, placement):
            result = self.blocking(self.request(emitted))
            self.received(emitted, result)
        if placement == REPLICATED:
            return [self._whole(emitted)]
        if isinstance(placement, Rows):
            return self._cut(emitted, placement)
        if isinstance(placement, Partial):
            whole = self.bring(emitted, REPLICATED)[0]
            if placement.reduction in ("sum", "prod"):
                return self.layout.operands(whole, placement.reduction)
            return [whole] * self.layout.lanes.count  # the largest of equal values is that value
        raise AssertionError(f"{describe(value)} cannot become {placement}")

    def _whole(self, emitted: Emitted) -> tf.Tensor:
        if emitted.source is not None:
            return self.compute(emitted.source.step, emitted.source.inputs)[0][0]
        value = emitted.value
        if value.constant is not None:
            return self.constant(value.constant, value.dtype)
        if REPLICATED not in emitted.tensors and value.is_known:
            return self._integers(value.known_elements or (), value)
        return emitted.tensors[REPLICATED][0]

    def _cut(self, emitted: Emitted, rows: Rows) -> list[tf.Tensor]:
        """Return rows of what all lanes have alike, computed as rows where that is possible."""
        value = emitted.value
        if value.constant is not None and REPLICATED not in emitted.tensors:
            arrays = self.layout.cut_array(value.constant, rows)
            return [self.constant(a, value.dtype) for a in arrays]
        if emitted.source is not None and REPLICATED not in emitted.tensors:
            parts = self._computed_rows(emitted, rows)
            if parts is not None:
                return parts
        whole = self.bring(emitted, REPLICATED)[0]
        parts = self.layout.cut(whole, rows)
        return [
            _with_shape(part, self.layout.part_shape(value.shape, rows, k))
            for part, k in zip(parts, self.layout.lane_rows, strict=True)
        ]

    def _computed_rows(self, emitted: Emitted, rows: Rows) -> list[tf.Tensor] | None:
        assert emitted.source is not None
        step, inputs = emitted.source.step, emitted.source.inputs
        shape = emitted.value.shape
        assert shape is not None
        if step.node in self._own_draws:
            return self._own_rows(step, inputs, rows, shape)
        if is_draw(step.node.type):
            operands = [self.bring(e, REPLICATED)[0] for e in inputs]
            return rows_of_draw(step.node, operands, emitted.value, rows, self.layout)
        counts = _shape_operand(step.node.type)
        placements = operand_placements(step, rows)
        if placements is None:
            return None
        decision = dataclasses.replace(
            step.decision,
            inputs=tuple(placements),
            outputs=(rows,),
            counts_rows={}
            if counts is None
            else {counts: [a == rows.axis for a in range(len(shape))]},
        )
        placed = emitted.value.placed(rows)
        return self.compute(
            dataclasses.replace(step, decision=decision, outputs=(placed,)), inputs
        )[0]

    def _own_rows(
        self, step: Compute, inputs: Sequence[Emitted], rows: Rows, shape: Sequence[int | None]
    ) -> list[tf.Tensor]:
        """Return rows that lanes draw for themselves, each with a key of its own."""
        key = inputs[1]
        [common] = self.bring(key, REPLICATED)
        own = [
            tf.bitwise.bitwise_xor(common, tf.constant(_own_key(lane), common.dtype))
            for lane in self.layout.lanes.numbers
        ]
        decision = dataclasses.replace(
            step.decision,
            inputs=(REPLICATED, OWN, *step.decision.inputs[2:]),
            outputs=(rows,),
            counts_rows={0: [axis == rows.axis for axis in range(len(shape))]},
        )
        step = dataclasses.replace(step, decision=decision, outputs=(step.outputs[0].placed(rows),))
        folded = Emitted(key.value.placed(OWN), own, key.node)
        return self.compute(step, [inputs[0], folded, *inputs[2:]])[0]

    # ---------------------------------------------------------------- operations

    def constant(self, array: np.ndarray[Any, Any], dtype: tf.DType) -> tf.Tensor:
        """Return a constant. Equal constants are made once."""
        array = np.asarray(array)
        key = (dtype, array.shape, array.tobytes()) if array.dtype != object else None
        if key is None or key not in self._constants:
            with tf.control_dependencies(None):
                made = tf.constant(array, dtype)
            if key is None:
                return made
            self._constants[key] = made
        return self._constants[key]

    @contextlib.contextmanager
    def after(self, node: Node) -> Iterator[None]:
        """Make operations on the device of a traced node, after what the node comes after."""
        before = [op for control in node.controls for op in self.operations.get(control, ())]
        with tf.control_dependencies(before) if before else contextlib.nullcontext():
            device = node.operation.device
            with tf.device(device) if device else contextlib.nullcontext():
                yield

    def compute(self, step: Compute, inputs: Sequence[Emitted]) -> list[list[tf.Tensor]]:
        """Make the operation of a step in all lanes, and return the tensors of each output."""
        decision, node = step.decision, step.node
        brought = [self.bring(e, p) for e, p in zip(inputs, decision.inputs, strict=True)]
        placements = [v.placement for v in step.outputs]
        shared = all(is_shared(p) for p in (*decision.inputs, *placements))
        changes = {name: attribute(value) for name, value in decision.attributes.items()}
        attributes = node.attributes.of_operation | changes
        lanes = [(None, "")] if shared else self._lanes()
        made = []
        with self.after(node):
            for place, (k, suffix) in enumerate(lanes):
                operands = [
                    self._operand(step, i, tensors[0 if len(tensors) == 1 else place], k)
                    for i, tensors in enumerate(brought)
                ]
                name = self._scope + node.name + suffix
                if shared and _rounds_a_sum(node):
                    operation = sum_of(operands, name)
                else:
                    kind = decision.type or node.type
                    operation = create_operation(kind, operands, node.dtypes, name, attributes)
                self.operations.setdefault(node, []).append(operation)
                made.append(self._outputs(step, list(operation.outputs), k))
        return [list(tensors) for tensors in zip(*made, strict=True)]

    def _integers(
        self,
        numbers: Sequence[int | None],
        value: Value,
        counts: Sequence[bool] | None = None,
        k: Count | None = None,
    ) -> tf.Tensor:
        """Return known integers in the place of a value, see `Layout.integers`."""
        sizes, dtype = [size or 0 for size in value.shape or ()], value.dtype
        key = dtype, tuple(sizes), tuple(numbers), tuple(counts or ()), id(k)
        if key in self._constants:
            return self._constants[key]
        with tf.control_dependencies(None), tf.device("CPU:0"):
            local = self.layout.integers([n or 0 for n in numbers], counts, k)
            if not any(map(tf.is_tensor, local)):
                array = np.asarray(local, dtype.as_numpy_dtype)
                return self.constant(array.reshape(sizes), dtype)
            each = [
                tf.cast(n, dtype)
                if tf.is_tensor(n)
                else self.constant(np.asarray(n, dtype.as_numpy_dtype), dtype)
                for n in local
            ]
            made = tf.stack(each) if sizes else each[0]
            made = tf.reshape(made, sizes) if len(sizes) > 1 else made
        self._constants[key] = made
        return made

    def _lanes(self) -> list[tuple[Count | None, str]]:
        """Return, for each lane, its number of rows and the suffix of its operations' names."""
        rows = self.layout.lane_rows
        if len(rows) == 1:
            return [(rows[0], "")]
        return [(k, f"/lane_{v}") for k, v in zip(rows, self.layout.lanes.numbers, strict=True)]

    def _operand(self, step: Compute, i: int, tensor: tf.Tensor, k: Count | None) -> tf.Tensor:
        decision, value = step.decision, step.inputs[i]
        if i not in decision.counts_rows or k is None:
            return (
                self.constant(decision.constants[i], value.dtype)
                if i in decision.constants
                else tensor
            )
        counts = decision.counts_rows[i]
        if i in decision.constants:
            return self._integers(np.ravel(decision.constants[i]).tolist(), value, counts, k)
        if value.is_known:
            return self._integers(value.known_elements or (), value, counts, k)
        rows = step.outputs[0].placement
        size = local_size(rows, k) if isinstance(rows, Rows) else None
        if step.node.type == "Reshape" and size is not None:  # also in the place of -1
            return tf.where(tf.constant(list(counts)), tf.cast(size, value.dtype), tensor)
        return local_sizes(tensor, counts, self.layout.num_rows, k)

    def _outputs(self, step: Compute, tensors: list[tf.Tensor], k: Count | None) -> list[tf.Tensor]:
        """Check the shapes of a lane's outputs, and return the outputs, weighted if demanded."""
        result = []
        for tensor, value in zip(tensors, step.outputs, strict=True):
            if value.dtype in (tf.resource, tf.variant):
                result.append(tensor)
                continue
            expected = self.layout.part_shape(value.shape, value.placement, k)
            if not tensor.shape.is_compatible_with(tf.TensorShape(expected)):
                raise PartitionError(
                    f"Operation {step.node.name!r} of type {step.node.type} gives "
                    f"{tensor.shape} in a lane of {k} rows, where {describe(value)} demands "
                    f"{tf.TensorShape(expected)}. Its inputs are "
                    f"{[describe(v) for v in step.inputs]}."
                )
            tensor = _with_shape(tensor, expected)
            if step.decision.weighted and isinstance(value.placement, Partial) and k is not None:
                tensor = tensor * self.layout.share(k, tensor.dtype)
            result.append(tensor)
        return result


def operand_placements(step: Compute, rows: Rows) -> list[Placement] | None:
    """Return what rows of a value on demand are computed of, None if they must be cut from it."""
    [output] = step.outputs
    assert output.shape is not None
    counts = _shape_operand(step.node.type)
    aligned = [
        REPLICATED if i == counts else _aligned(operand, len(output.shape), rows)
        for i, operand in enumerate(step.inputs)
    ]
    placements = [p for p in aligned if p is not None]
    is_shared_by_all = counts is None and set(placements) == {REPLICATED}
    return None if len(placements) < len(aligned) or is_shared_by_all else placements


def _own_key(lane: int) -> int:
    """Return what makes a lane's key of the common one: multiples of a number that is odd."""
    return lane * 0x9E3779B97F4A7C15 % 2**64


def _rounds_a_sum(node: Node) -> bool:
    dtype = node.dtypes[0] if node.type in ADDITIONS else None
    return dtype is not None and len(node.inputs) > 1 and (dtype.is_floating or dtype.is_complex)


def _shape_operand(operation_type: str) -> int | None:
    """Return the operand with the output's shape, for operations that broadcast a value."""
    return {"BroadcastTo": 1, "Fill": 0}.get(operation_type)


def _aligned(operand: Value, rank: int, rows: Rows) -> Placement | None:
    """Return the placement of an operand broadcast to a result with rows, None if unknown."""
    assert operand.shape is not None
    axis = rows.axis - rank + len(operand.shape)
    if axis < 0 or operand.shape[axis] == 1:
        return REPLICATED
    if operand.shape[axis] is None:
        return None
    return Rows(axis, rows.outer, rows.inner)


def _with_shape(tensor: tf.Tensor, shape: Shape) -> tf.Tensor:
    if shape is not None and not tensor.shape.is_fully_defined():
        tensor.set_shape(shape)
    return tensor
