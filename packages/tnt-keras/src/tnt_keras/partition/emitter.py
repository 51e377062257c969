"""The graph of one process: the operations of the traced step, in each replica of the process."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tnt_keras.partition.across_ranks import AcrossRanks
from tnt_keras.partition.analysis import PartitionError, describe
from tnt_keras.partition.explain import Exchanged, exchanged_value
from tnt_keras.partition.graph import Node, users_line
from tnt_keras.partition.lane_order import LaneOrder
from tnt_keras.partition.lists import stacked
from tnt_keras.partition.operations import ADDITIONS, attribute, create, is_handle, sum_of
from tnt_keras.partition.plan import Compute
from tnt_keras.partition.random_ops import is_draw, is_draw_of_rows, own_key, rows_of_draw
from tnt_keras.partition.reshard import BatchSharding, Exchange, NumRows, Request, scaled
from tnt_keras.partition.value import (
    PARTIAL,
    PER_REPLICA,
    REPLICATED,
    Handle,
    ListOf,
    Partial,
    Placement,
    Shape,
    Sharded,
    Value,
    is_shared,
    known,
    local_size,
    static,
)
from tnt_keras.process.fences import fenced, first_of_lanes, lane_input


class Emitted:
    """A value in the graph that is being built, in all placements to which it was resharded.

    For each placement there is one tensor if all replicas share it, else one for each replica of
    this process. `source` is the operation, with its inputs, that computes the value on demand;
    `node` is for messages.
    """

    __slots__ = ("node", "source", "tensors", "value")

    def __init__(
        self,
        value: Value,
        tensors: Sequence[tf.Tensor] | None,
        node: Node | None,
        source: tuple[Compute, Sequence[Emitted]] | None = None,
    ) -> None:
        self.value, self.node, self.source = value, node, source
        self.tensors: dict[Placement, list[tf.Tensor]] = {}
        if tensors is not None:
            self.tensors[value.placement] = list(tensors)


@dataclasses.dataclass(eq=False)
class Emitter:
    """Makes operations and reshards values, in the graph that is being built.

    `updates` are the nodes whose totals reach the update of an optimizer, `own_draws` those of
    which each replica draws rows of its own, and `draw_counters` say how far seeded draws have
    come. With `draws_whole` rows are cut from whole draws, since XLA draws other numbers than
    TensorFlow. `keep` is called with what must live as long as the graph. `order` is that of lanes,
    if the process does not compute all of its at once. Emitters of bodies share with that of the
    graph the lists of exchanges, of which some block, and what is known of operations
    `across_ranks`.
    """

    sharding: BatchSharding
    exchange: Exchange
    keep: Callable[[Any], None]
    updates: frozenset[Node] = frozenset()
    own_draws: frozenset[Node] = frozenset()
    draw_counters: Mapping[Node, tf.Variable] = dataclasses.field(default_factory=dict)
    draws_whole: bool = False
    scope: str = ""
    order: LaneOrder = dataclasses.field(default_factory=lambda: LaneOrder(sys.maxsize))
    blocked: list[Request] = dataclasses.field(default_factory=list)
    exchanged: list[Exchanged] = dataclasses.field(default_factory=list)
    across_ranks: AcrossRanks = dataclasses.field(default_factory=AcrossRanks)
    # Those of each node, waited for by what follows the node.
    operations: dict[Node, list[tf.Operation]] = dataclasses.field(default_factory=dict)
    constants: dict[Any, tf.Tensor] = dataclasses.field(default_factory=dict)
    read_by_lanes: dict[Any, tf.Tensor] = dataclasses.field(default_factory=dict)

    def of_body(self, sharding: BatchSharding) -> Emitter:
        """Return the emitter for the body of a loop or branch, a function this graph calls."""
        own: dict[str, Any] = {"operations": {}, "draw_counters": {}, "constants": {}, "scope": ""}
        own |= {"order": LaneOrder(sys.maxsize), "read_by_lanes": {}}
        return dataclasses.replace(self, sharding=sharding, **own)

    def blocking(self, request: Request) -> tf.Tensor:
        """Exchange one value now. Collective."""
        self.blocked.append(request)
        self.order.meet()
        return self.exchange.blocking(request)

    def _given_up(self, parts: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Return what replicas give to be combined in this process, as if it were exchanged."""
        if len(parts) == 1:
            return list(parts)
        fences = [fenced(part) for part in parts]
        for lane, fence in enumerate(fences):
            self.order.ends_with(lane, fence.op)
        return fences

    # ---------------------------------------------------------------- placements

    def needs_exchange(self, emitted: Emitted, placement: Placement) -> bool:
        """Return whether a value must be exchanged before it can have a placement."""
        held = emitted.value.placement
        if placement in (held, *emitted.tensors) or REPLICATED in emitted.tensors:
            return False
        is_weighted = (held, placement) == (PER_REPLICA, PARTIAL)
        return not (is_weighted or is_shared(held) or isinstance(held, ListOf))

    def request(
        self, emitted: Emitted, level: int | None = None, *, is_last: bool = False
    ) -> Request:
        """Return the request to make a value the same in all replicas; without level it blocks."""
        value, node = emitted.value, emitted.node
        parts = emitted.tensors[value.placement]
        if not isinstance(value.placement, Sharded | Partial):
            parts = self.sharding.weighted(parts)
        parts = self._given_up(parts)
        match value.placement:
            case Sharded() as rows:
                kind, tensor = "gather", self.sharding.rows_first(parts, value.shape, rows)
            case Partial(reduction):
                kind, tensor = reduction, self.sharding.reduced(parts, reduction)
            case _:
                kind, tensor = "sum", self.sharding.reduced(parts, "sum")
        name = node.name if node is not None else "output"
        is_update = is_last and node in self.updates
        self.exchanged.append(exchanged_value(value, node, kind, name, is_update, level))
        return Request(kind, tensor, name, users_line(node), is_update)

    def partial_sum(self, emitted: Emitted) -> tf.Tensor:
        """Return the partial sum of this process, or its share `k / N` of a replicated value."""
        if emitted.value.placement == PARTIAL:
            own = self.sharding.reduced(emitted.tensors[PARTIAL], "sum")
            return tf.cast(own, emitted.value.dtype)
        [whole] = self.reshard(emitted, REPLICATED)
        share = self.sharding.share(sum(self.sharding.replica_rows), tf.float64)
        return tf.cast(tf.cast(whole, tf.float64) * share, whole.dtype)

    def received(self, emitted: Emitted, result: tf.Tensor) -> None:
        """Note the result of the exchange of a value."""
        value = emitted.value
        with self.across_ranks.replicating():
            if isinstance(value.placement, Sharded):
                result = self.sharding.whole(result, value.shape, value.placement)
            result = tf.cast(result, value.dtype)  # of 16-bit floats, if they were widened
        emitted.tensors[REPLICATED] = [_with_shape(result, static(value.shape))]

    def reshard_all(
        self, inputs: Sequence[Emitted], placements: Sequence[Placement]
    ) -> list[list[tf.Tensor]]:
        """Return the tensors of values, each in a placement."""
        return [self.reshard(e, p) for e, p in zip(inputs, placements, strict=True)]

    def reshard(self, emitted: Emitted, placement: Placement) -> list[tf.Tensor]:
        """Return the tensors of a value in a placement. An exchange that is still due blocks."""
        if placement not in emitted.tensors:
            emitted.tensors[placement] = self._resharded(emitted, placement)
        return emitted.tensors[placement]

    def _resharded(self, emitted: Emitted, placement: Placement) -> list[tf.Tensor]:
        held = emitted.value.placement
        if isinstance(held, Handle):
            return emitted.tensors[held]
        if isinstance(held, ListOf) and isinstance(placement, ListOf):
            return self._list(emitted, held, placement)
        if held == PER_REPLICA and placement == PARTIAL:
            return self.sharding.weighted(emitted.tensors[PER_REPLICA])
        if self.needs_exchange(emitted, placement):
            self.received(emitted, self.blocking(self.request(emitted)))
        if placement == REPLICATED:
            return [self._whole(emitted)]
        if isinstance(placement, Sharded):
            return self._cut(emitted, placement)
        if isinstance(placement, Partial):
            shared = self.for_lanes(self.reshard(emitted, REPLICATED)[0])
            self.across_ranks.used_by_some.add(shared.ref())  # by one rank, for a sum
            return self.sharding.operands(shared, placement.reduction)
        raise AssertionError(f"{describe(emitted.value)} cannot become {placement}")

    def _whole(self, emitted: Emitted) -> tf.Tensor:
        if emitted.source is not None:
            return self.compute(*emitted.source)[0][0]
        value = emitted.value
        if value.constant is not None:
            return self.constant(value.constant, value.dtype)
        if REPLICATED not in emitted.tensors and value.is_known:
            return self._integers(value.known_elements or (), value)
        return emitted.tensors[REPLICATED][0]

    def _cut(self, emitted: Emitted, rows: Sharded) -> list[tf.Tensor]:
        """Return rows of what all replicas have alike, computed as rows where that is possible."""
        value = emitted.value
        if REPLICATED not in emitted.tensors:
            if value.constant is not None:
                arrays = self.sharding.cut_array(value.constant, rows)
                return [self.constant(a, value.dtype) for a in arrays]
            if emitted.source is not None:
                parts = self._computed_rows(emitted, *emitted.source, rows)
                if parts is not None:
                    return parts
        parts = self.sharding.cut(self.for_lanes(self.reshard(emitted, REPLICATED)[0]), rows)
        shapes = self.sharding.part_shapes(value.shape, rows)
        return [_with_shape(part, shape) for part, shape in zip(parts, shapes, strict=True)]

    def _computed_rows(
        self, emitted: Emitted, step: Compute, inputs: Sequence[Emitted], rows: Sharded
    ) -> list[tf.Tensor] | None:
        if step.node in self.own_draws:
            return self._own_rows(step, inputs, rows)
        if is_draw(step.node.type):
            if self.draws_whole:
                return None
            operands = [self.reshard(e, REPLICATED)[0] for e in inputs]
            drawn = rows_of_draw(step.node, operands, emitted.value, rows, self.sharding)
            for lane, part in enumerate(drawn or ()):
                draws = filter(is_draw_of_rows, (part.op, *(each.op for each in part.op.inputs)))
                for operation in draws:
                    self.order.begins_with(lane, operation)
            return drawn
        placements = step.operand_placements(rows)
        if placements is None:
            return None
        return self.compute(step.of_rows(rows, placements), inputs)[0]

    def _own_rows(self, step: Compute, inputs: Sequence[Emitted], rows: Sharded) -> list[tf.Tensor]:
        """Return rows that replicas draw for themselves, each with a key of its own."""
        shape, key, *others = inputs
        [common] = self.reshard(key, REPLICATED)
        own = [
            tf.bitwise.bitwise_xor(common, tf.constant(own_key(replica), common.dtype))
            for replica in self.sharding.replicas.numbers
        ]
        folded = Emitted(key.value.placed(PER_REPLICA), own, key.node)
        placements = (REPLICATED, PER_REPLICA, *step.decision.inputs[2:])
        return self.compute(step.of_rows(rows, placements, 0), [shape, folded, *others])[0]

    def _list(self, emitted: Emitted, held: ListOf, placement: ListOf) -> list[tf.Tensor]:
        """Return a list with its elements in a placement, by way of one tensor of all elements."""
        handles, element = emitted.tensors[held], emitted.value.element
        if held.element is None:
            return handles * (1 if is_shared(placement) else self.sharding.replicas.count)
        if placement.element is None or placement == held or all(map(is_shared, (held, placement))):
            return handles
        is_nested = isinstance(held.element, ListOf)
        if element is None or element.shape is None or (is_nested and not element.is_optional):
            node = emitted.node
            where = f"{node.name!r} ({users_line(node) or 'no line'})" if node else "an argument"
            raise PartitionError(
                f"A list of {held.element} cannot become one of {placement.element}, in {where}."
            )
        if element.is_optional:
            return self._optional(emitted, held, placement.element)
        replicas = zip(
            handles, [None] if is_shared(held) else self.sharding.replica_rows, strict=True
        )
        sizes = [-1 if size is None else size for size in element.shape]
        operand = Value(REPLICATED, (len(sizes),), tf.int32)
        axis = held.element.axis if isinstance(held.element, Sharded) else None
        counts = [a == axis for a in range(len(sizes))]
        tensors = [
            tf.raw_ops.TensorListStack(
                input_handle=handle,
                element_shape=self._integers(sizes, operand, counts, k),
                element_dtype=element.dtype,
            )
            for handle, k in replicas
        ]
        value = Value(stacked(held.element), (None, *element.shape), element.dtype)
        tensor = Emitted(value, tensors, emitted.node)
        return [
            tf.raw_ops.TensorListFromTensor(tensor=t, element_shape=tf.constant(-1, tf.int32))
            for t in self.reshard(tensor, stacked(placement.element))
        ]

    def _optional(self, emitted: Emitted, of: ListOf, wanted: Placement) -> list[tf.Tensor]:
        """Return an optional with what it holds in a placement."""
        element, held = known(emitted.value.element), of.element or REPLICATED
        shapes = map(tf.TensorShape, self.sharding.part_shapes(element.shape, held))
        values = [
            tf.raw_ops.OptionalGetValue(
                optional=optional, output_types=[element.dtype], output_shapes=[shape]
            )[0]
            for optional, shape in zip(emitted.tensors[of], shapes, strict=True)
        ]
        described = Value(held, element.shape, element.dtype, element=element.element)
        item = Emitted(described, values, emitted.node)
        if isinstance(held, ListOf) and wanted == REPLICATED:
            wanted = ListOf(REPLICATED)
        return [tf.raw_ops.OptionalFromValue(components=[t]) for t in self.reshard(item, wanted)]

    # ---------------------------------------------------------------- operations

    def for_lanes(self, shared: tf.Tensor) -> tf.Tensor:
        """Return what all replicas share for operations of lanes: one reader, however many."""
        if not self.sharding.replicas.are_lanes:
            return shared
        if is_handle(shared.dtype) or shared.op.type == "Const":
            return shared
        key = shared.ref()
        if key not in self.read_by_lanes:
            with tf.control_dependencies(None):
                self.read_by_lanes[key] = lane_input(shared)
        return self.read_by_lanes[key]

    def first(self, parts: Sequence[tf.Tensor]) -> tf.Tensor:
        """Return the part of the first replica, of which something is read that all have alike."""
        if not self.sharding.replicas.are_lanes:
            return parts[0]
        self.order.meet()
        return first_of_lanes(parts)

    def constant(self, array: np.ndarray[Any, Any], dtype: tf.DType) -> tf.Tensor:
        """Return a constant. Equal constants are made once."""
        array = np.asarray(array)
        # Arrays of objects hold no bytes by which to know them again.
        held = array.tobytes() if array.dtype != object else object()
        key = dtype, array.shape, held
        if key not in self.constants:
            with tf.control_dependencies(None):
                self.constants[key] = tf.constant(array, dtype)
        return self.constants[key]

    @contextlib.contextmanager
    def after(self, node: Node) -> Iterator[None]:
        """Make operations on the device of a traced node, after what the node comes after."""
        of_controls = [self.operations.get(control, ()) for control in node.controls]
        if any(len(operations) > 1 for operations in of_controls):
            self.order.meet()
        before = [operation for operations in of_controls for operation in operations]
        device, nothing = node.operation.device, contextlib.nullcontext()
        with (
            tf.control_dependencies(before) if before else nothing,
            tf.device(device) if device else nothing,
        ):
            yield

    def make(self, node: Node, operands: Sequence[tf.Tensor]) -> tf.Operation:
        """Make the operation of a node itself."""
        attributes = node.attributes.of_operation
        operation = create(node.type, operands, node.dtypes, node.name, attributes)
        self.operations.setdefault(node, []).append(operation)
        return operation

    def compute(self, step: Compute, inputs: Sequence[Emitted]) -> list[list[tf.Tensor]]:
        """Make the operation of a step in all replicas, and return the tensors of each output."""
        decision, node = step.decision, step.node
        resharded = self.reshard_all(inputs, decision.inputs)
        placements = [v.placement for v in step.outputs]
        shared = all(is_shared(p) for p in (*decision.inputs, *placements))
        changes = {name: attribute(value) for name, value in decision.attributes.items()}
        attributes = node.attributes.of_operation | changes
        is_one = shared or self.sharding.replicas.count == 1
        made = []
        with self.after(node):
            for place, (replica, k) in enumerate([(0, None)] if shared else self.sharding.each):
                operands = [
                    self._operand(step, i, tensors[0 if len(tensors) == 1 else place], k)
                    for i, tensors in enumerate(resharded)
                ]
                if not shared:
                    pairs = zip(operands, decision.inputs, strict=True)
                    operands = [self.for_lanes(o) if is_shared(p) else o for o, p in pairs]
                name = self.scope + node.name + ("" if is_one else f"/replica_{replica}")
                if (shared or self.sharding.replicas.are_lanes) and _rounds_a_sum(node):
                    created = sum_of(operands, name)
                else:
                    created = [create(node.type, operands, node.dtypes, name, attributes)]
                self.across_ranks.note(created, shared)
                operation = created[-1]
                self.operations.setdefault(node, []).append(operation)
                outputs = self._outputs(step, list(operation.outputs), k)
                if not shared and all(map(is_shared, decision.inputs)):
                    # TensorFlow makes one of those of lanes with as many rows.
                    outputs = list(map(self.for_lanes, outputs))
                made.append(outputs)
        return [list(tensors) for tensors in zip(*made, strict=True)]

    def _integers(
        self,
        numbers: Sequence[int | None],
        value: Value,
        counts: Sequence[bool] | None = None,
        k: NumRows | None = None,
    ) -> tf.Tensor:
        """Return known integers in the place of a value, see `BatchSharding.integers`."""
        sizes, dtype = [size or 0 for size in value.shape or ()], value.dtype
        key = dtype, tuple(sizes), tuple(numbers), tuple(counts or ()), id(k)
        if key in self.constants:
            return self.constants[key]
        with tf.control_dependencies(None), tf.device("CPU:0"):
            local = self.sharding.integers([n or 0 for n in numbers], counts, k)
            if not any(map(tf.is_tensor, local)):
                array = np.asarray(local, dtype.as_numpy_dtype)
                return self.constant(array.reshape(sizes), dtype)
            made = [
                tf.cast(n, dtype)
                if tf.is_tensor(n)
                else self.constant(np.asarray(n, dtype.as_numpy_dtype), dtype)
                for n in local
            ]
            made = tf.stack(made) if sizes else made[0]
            made = tf.reshape(made, sizes) if len(sizes) > 1 else made
        self.constants[key] = made
        return made

    def _operand(self, step: Compute, i: int, tensor: tf.Tensor, k: NumRows | None) -> tf.Tensor:
        decision, value = step.decision, step.inputs[i]
        replaced = decision.constants.get(i)
        if i not in decision.counts_rows or k is None:
            return tensor if replaced is None else self.constant(replaced, value.dtype)
        counts = decision.counts_rows[i]
        known_numbers = value.known_elements or () if value.is_known else None
        numbers = known_numbers if replaced is None else np.ravel(replaced).tolist()
        if numbers is not None:
            return self._integers(numbers, value, counts, k)
        rows = step.outputs[0].placement
        size = local_size(rows, k) if isinstance(rows, Sharded) else None
        if step.node.type == "Reshape" and size is not None:  # also in the place of -1
            return tf.where(tf.constant(list(counts)), tf.cast(size, value.dtype), tensor)
        flags = tf.constant(list(counts) if tensor.shape.rank else counts[0])
        return scaled(tensor, flags, self.sharding.num_rows, k)

    def _outputs(
        self, step: Compute, tensors: list[tf.Tensor], k: NumRows | None
    ) -> list[tf.Tensor]:
        """Check the shapes of a replica's outputs, and return the outputs, weighted if demanded."""
        for i, value in enumerate(step.outputs):
            if is_handle(value.dtype):
                continue
            expected = tf.TensorShape(self.sharding.part_shape(value.shape, value.placement, k))
            if not tensors[i].shape.is_compatible_with(expected):
                raise PartitionError(
                    f"Operation {step.node.name!r} of type {step.node.type} gives "
                    f"{tensors[i].shape} in a replica of {k} rows, but {describe(value)} requires "
                    f"{expected}. Its inputs are {[describe(v) for v in step.inputs]}."
                )
            tensors[i] = _with_shape(tensors[i], expected)
            if step.decision.weighted and isinstance(value.placement, Partial) and k is not None:
                tensors[i] *= self.sharding.share(k, tensors[i].dtype)
        return tensors


def _rounds_a_sum(node: Node) -> bool:
    dtype = node.dtypes[0] if node.type in ADDITIONS else None
    return dtype is not None and len(node.inputs) > 1 and (dtype.is_floating or dtype.is_complex)


def _with_shape(tensor: tf.Tensor, shape: Shape | tf.TensorShape) -> tf.Tensor:
    if shape is not None and not tensor.shape.is_fully_defined():
        tensor.set_shape(shape)
    return tensor
