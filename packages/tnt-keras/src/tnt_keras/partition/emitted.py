"""Values in the graph that is being built, and how lists come from placement to placement."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import tensorflow as tf

from tnt_keras.partition.analysis import PartitionError
from tnt_keras.partition.flat_graph import Node, users_line
from tnt_keras.partition.placement import REPLICATED, ListOf, Placement, Rows, is_shared
from tnt_keras.partition.plan import Compute
from tnt_keras.partition.reshard import Count, Layout
from tnt_keras.partition.value import Value


class Emitted:
    """A value in the graph that is being built, in all placements to which it was brought.

    For each placement there is one tensor if all lanes share it, else one for each lane of this
    process. `source` computes the value on demand; `node` is for messages.
    """

    __slots__ = ("node", "source", "tensors", "value")

    def __init__(
        self,
        value: Value,
        tensors: Sequence[tf.Tensor] | None,
        node: Node | None,
        source: OnDemand | None = None,
    ) -> None:
        self.value = value
        self.node = node
        self.source = source
        self.tensors: dict[Placement, list[tf.Tensor]] = {}
        if tensors is not None:
            self.tensors[value.placement] = list(tensors)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class OnDemand:
    """An operation that is made when its output is read."""

    step: Compute
    inputs: tuple[Emitted, ...]


Bring = Callable[[Emitted, Placement], list[tf.Tensor]]
Integers = Callable[[Sequence[int], Value, Sequence[bool], Count | None], tf.Tensor]


def bring_list(
    emitted: Emitted, placement: ListOf, layout: Layout, bring: Bring, integers: Integers
) -> list[tf.Tensor]:
    """Return a list with its elements in a placement, by way of one tensor of all elements."""
    value = emitted.value
    held = value.placement
    assert isinstance(held, ListOf)
    if held.element is None:
        [handle] = emitted.tensors[held]
        return [handle] * (1 if is_shared(placement) else layout.lanes.count)
    if placement.element is None or placement.element == held.element:
        return emitted.tensors[held]
    if is_shared(held) and is_shared(placement):
        return emitted.tensors[held]
    element = value.element
    is_nested = isinstance(held.element, ListOf)
    if element is None or element.shape is None or (is_nested and not element.is_optional):
        node = emitted.node
        where = f"{node.name!r} ({users_line(node) or 'no line'})" if node else "an argument"
        raise PartitionError(
            f"A list of {held.element} cannot become one of {placement.element}, in {where}."
        )
    if element.is_optional:
        return _bring_optional(emitted, placement, layout, bring)
    lanes = [None] if is_shared(held) else layout.lane_rows
    sizes = [-1 if size is None else size for size in element.shape]
    operand = Value(REPLICATED, (len(sizes),), tf.int32)
    axis = held.element.axis if isinstance(held.element, Rows) else None
    counts = [a == axis for a in range(len(sizes))]
    stacked = [
        tf.raw_ops.TensorListStack(
            input_handle=handle,
            element_shape=integers(sizes, operand, counts, k),
            element_dtype=element.dtype,
        )
        for handle, k in zip(emitted.tensors[held], lanes, strict=True)
    ]
    shape = (None, *element.shape)
    tensor = Emitted(Value(_behind(held.element), shape, element.dtype), stacked, emitted.node)
    return [
        tf.raw_ops.TensorListFromTensor(tensor=t, element_shape=tf.constant(-1, tf.int32))
        for t in bring(tensor, _behind(placement.element))
    ]


def _bring_optional(
    emitted: Emitted, placement: ListOf, layout: Layout, bring: Bring
) -> list[tf.Tensor]:
    """Return an optional with what it holds in a placement."""
    held, element = emitted.value.placement, emitted.value.element
    assert isinstance(held, ListOf)
    assert held.element is not None
    assert placement.element is not None
    assert element is not None
    lanes = [None] if is_shared(held) else layout.lane_rows
    values = [
        tf.raw_ops.OptionalGetValue(
            optional=optional,
            output_types=[element.dtype],
            output_shapes=[tf.TensorShape(layout.part_shape(element.shape, held.element, k))],
        )[0]
        for optional, k in zip(emitted.tensors[held], lanes, strict=True)
    ]
    described = Value(held.element, element.shape, element.dtype, element=element.element)
    item = Emitted(described, values, emitted.node)
    is_whole_list = isinstance(held.element, ListOf) and placement.element == REPLICATED
    wanted = ListOf(REPLICATED) if is_whole_list else placement.element
    return [tf.raw_ops.OptionalFromValue(components=[t]) for t in bring(item, wanted)]


def _behind(element: Placement) -> Placement:
    """Return the placement of the tensor in which the elements of a list are stacked."""
    if isinstance(element, Rows):
        return Rows(element.axis + 1, element.outer, element.inner)
    return element
