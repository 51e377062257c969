"""Lists of tensors, in which loops keep what their gradients read.

What is put into a list decides what the list holds: rows of the batch, totals or whole values. All
elements have the same placement. Shapes, too, pass through lists from a loop to its gradient loop.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from tnt_keras.partition.global_shapes import in_common, merged
from tnt_keras.partition.graph import Node
from tnt_keras.partition.rules.registry import Decision
from tnt_keras.partition.value import (
    PARTIAL,
    REPLICATED,
    Element,
    ListOf,
    Placement,
    Shape,
    Sharded,
    Value,
    fits,
    integers,
    join,
    known_value,
    shape_of,
)

Placed: TypeAlias = tuple[Decision, list[Value]]
Rule: TypeAlias = Callable[[Node, Sequence[Value]], Placed | None]

LIST_RULES: dict[str, Rule] = {}
"""How an operation on lists is computed, and its outputs; None if that is not known."""

_ANY_SHAPE = np.int32(-1)


def _rule(types: str) -> Callable[[Rule], Rule]:
    def enter(rule: Rule) -> Rule:
        LIST_RULES.update(dict.fromkeys(types.split(), rule))
        return rule

    return enter


def fitting(value: Value, num_rows: int) -> Value:
    """Return a value; without rows unless it, or what it holds, is as large."""
    held, element = value.placement, value.element
    if not isinstance(held, ListOf):
        return value if fits(value.shape, held, num_rows) else value.placed(REPLICATED)
    if held.element is None or element is None:
        return value
    is_unknown = element.shape is None and not element.is_optional
    is_fitting = is_unknown or fits(element.shape, held.element, num_rows)
    return value if is_fitting else value.placed(ListOf(REPLICATED))


def joined(first: Element | None, second: Element | None) -> Element | None:
    """Return what is known of the elements of a list that holds elements of both kinds."""
    if first is None or second is None:
        return second if first is None else first
    a, b = first.constant, second.constant
    is_same = a is not None and b is not None and np.array_equal(a, b)
    return Element(
        in_common(first.shape, second.shape),
        first.dtype,
        a if is_same else None,
        joined(first.element, second.element),
        first.is_optional or second.is_optional,
    )


@_rule("EmptyTensorList TensorListReserve")
def _new(node: Node, inputs: Sequence[Value]) -> Placed:
    # Elements of replicas have other shapes than whole ones: what is put in says its shape itself.
    made = Value(ListOf(None), (), tf.variant)
    if node.type == "TensorListReserve":
        made = _with_length(made, inputs[1])
    return _placed([REPLICATED] * len(inputs), made, constants={0: np.asarray(_ANY_SHAPE)})


@_rule("TensorListPushBack TensorListSetItem")
def _put(node: Node, inputs: Sequence[Value]) -> Placed:
    is_pushed = node.type == "TensorListPushBack"
    item_at = 1 if is_pushed else 2
    held, item = inputs[0], inputs[item_at]
    placement = _held_together(held, item)
    demands: list[Placement] = [REPLICATED] * len(inputs)
    demands[0], demands[item_at] = ListOf(placement), placement
    # Other places of a list may hold nothing yet, which is read as zeros.
    known = item.known_array if is_pushed else None
    element = joined(held.element, Element(item.shape, item.dtype, known, item.element))
    held = dataclasses.replace(held, placement=ListOf(placement), element=element)
    if is_pushed or node.attributes.get("resize_if_index_out_of_bounds", False):
        held = _without_length(held)
    return _placed(demands, held)


@_rule("TensorListGetItem TensorListPopBack")
def _get(node: Node, inputs: Sequence[Value]) -> Placed:
    """Place the operations whose last output is an element, and whose last input is its shape."""
    held = inputs[0]
    placement = _element_of(held) or REPLICATED
    shape = _shape_of_element(held, inputs[-1], node.shapes[-1])
    item = _item(held, placement, shape, node.dtypes[-1])
    outputs: list[Value] = [_without_length(held)] if len(node.dtypes) == 2 else []
    return _read(inputs, placement, *outputs, item)


@_rule("TensorListStack")
def _stack(node: Node, inputs: Sequence[Value]) -> Placed:
    held = inputs[0]
    element = _element_of(held) or REPLICATED
    one = _shape_of_element(held, inputs[1], tf.TensorShape(None))
    shape = None if one is None else (held.length, *one)
    shape = merged(shape, shape_of(node.shapes[0]))
    example = None
    if shape is not None and shape[0] is None and None not in shape[1:] and held.example_length:
        example = (held.example_length, *(size for size in shape[1:] if size is not None))
    output = Value(stacked(element), shape, node.dtypes[0], example_shape=example)
    return _read(inputs, element, output)


@_rule("TensorListFromTensor")
def _from_tensor(node: Node, inputs: Sequence[Value]) -> Placed:
    tensor = inputs[0]
    demand = _storable(tensor.placement)
    if isinstance(demand, Sharded) and demand.axis == 0:
        demand = REPLICATED
    element = demand.on_axis(demand.axis - 1) if isinstance(demand, Sharded) else demand
    described = Element(None if tensor.shape is None else tensor.shape[1:], tensor.dtype)
    made = Value(ListOf(element), (), tf.variant, element=described)
    if tensor.shape is not None:
        example = (tensor.shape_in_example or (None,))[0]
        made = dataclasses.replace(made, length=tensor.shape[0], example_length=example)
    return _placed([demand, REPLICATED], made, constants={1: np.asarray(_ANY_SHAPE)})


@_rule("TensorListResize")
def _resize(node: Node, inputs: Sequence[Value]) -> Placed:
    """Place the operation that resizes a list. New places hold nothing."""
    held = dataclasses.replace(inputs[0], element=_without_constant(inputs[0].element))
    return _placed([held.placement, *[REPLICATED] * len(inputs[1:])], _with_length(held, inputs[1]))


@_rule("OptionalHasValue TensorListLength")
def _length(node: Node, inputs: Sequence[Value]) -> Placed:
    held, dtype = inputs[0], node.dtypes[0]
    output = Value(REPLICATED, (), dtype)
    if held.length is not None:
        output = integers([held.length], (), dtype)
    elif held.example_length is not None:
        example = np.asarray(held.example_length, dtype.as_numpy_dtype)
        output = dataclasses.replace(output, example=example)
    return _placed([held.placement], output)


@_rule("TensorListElementShape")
def _element_shape(node: Node, inputs: Sequence[Value]) -> Placed:
    """Return the shape of whole elements with -1 for unknown sizes, as TensorFlow's lists do."""
    held = inputs[0]
    shape = held.element.shape if held.element is not None else None
    sizes = (None,) if shape is None else shape
    elements = [-1 if size is None else size for size in sizes]
    known = integers(elements, () if shape is None else (len(shape),), node.dtypes[0])
    return _placed([held.placement], known)


@_rule("AddN")
def _add(node: Node, inputs: Sequence[Value]) -> Placed | None:
    """Place the sum of gradients with respect to one list, element by element."""
    if node.dtypes[0] != tf.variant:
        return None
    none: Placement = ListOf(None)
    placement = functools.reduce(join, (v.placement for v in inputs), none)
    element = functools.reduce(joined, (v.element for v in inputs))
    total = Value(placement, (), tf.variant, element=_without_constant(element))
    return _placed([placement] * len(inputs), total)


@_rule("ZerosLike")
def _zeros(node: Node, inputs: Sequence[Value]) -> Placed | None:
    if node.dtypes[0] != tf.variant:
        return None
    held = dataclasses.replace(inputs[0], element=_without_constant(inputs[0].element))
    return _placed([held.placement], held)


@_rule("OptionalFromValue")
def _optional(node: Node, inputs: Sequence[Value]) -> Placed | None:
    """Place an optional, in which a branch keeps a value for its gradient, as a list of one."""
    if len(inputs) != 1:
        return None
    item = inputs[0]
    placement = _storable(item.placement)
    element = Element(item.shape, item.dtype, None, item.element, is_optional=True)
    return _placed([placement], Value(ListOf(placement), (), tf.variant, element=element))


_rule("OptionalNone")(lambda node, inputs: _placed([], Value(ListOf(None), (), tf.variant)))


@_rule("OptionalGetValue")
def _value_of_optional(node: Node, inputs: Sequence[Value]) -> Placed | None:
    held = inputs[0]
    if len(node.dtypes) != 1 or held.element is None:
        return None
    item = _item(held, _element_of(held) or REPLICATED, held.element.shape, node.dtypes[0])
    # What an optional holds in a replica has another shape than the whole.
    attributes = {"output_shapes": [tf.TensorShape(None)]}
    return _placed([held.placement], item, attributes=attributes)


def _with_length(held: Value, number: Value) -> Value:
    """Return a list with as many elements as an operand says."""
    example, [length] = number.value_in_example, number.known_elements or (None,)
    if example is None or example < 0:
        return _without_length(held)
    return dataclasses.replace(held, length=length, example_length=int(example))


def _without_length(held: Value) -> Value:
    return dataclasses.replace(held, length=None, example_length=None)


def _element_of(held: Value) -> Placement | None:
    return held.placement.element if isinstance(held.placement, ListOf) else None


def _held_together(held: Value, item: Value) -> Placement:
    """Return the common placement of a list's elements and of one that is put into the list."""
    element, placement = _element_of(held), _storable(item.placement)
    if element is None or element == placement:
        return placement
    # A list is resharded elsewhere by way of one tensor, for which elements need one shape.
    if held.element is None or held.element.shape != item.shape or item.shape is None:
        return REPLICATED
    return join(element, placement)


def _without_constant(element: Element | None) -> Element | None:
    return None if element is None else dataclasses.replace(element, constant=None)


def _storable(placement: Placement) -> Placement:
    """Return the placement in which a list can hold a value. Of a total it holds partial sums."""
    is_held = placement == PARTIAL or isinstance(placement, Sharded | ListOf)
    return placement if is_held else REPLICATED


def _shape_of_element(held: Value, operand: Value, traced: tf.TensorShape) -> Shape:
    shape = merged(shape_of(traced), held.element.shape if held.element is not None else None)
    known = operand.known_elements
    if known is None or operand.shape == ():
        return shape
    return merged(shape, tuple(None if e is None or e < 0 else e for e in known))


def stacked(element: Placement) -> Placement:
    """Return the placement of the tensor in which the elements of a list are stacked."""
    return element.on_axis(element.axis + 1) if isinstance(element, Sharded) else element


def _item(held: Value, placement: Placement, shape: Shape, dtype: tf.DType) -> Value:
    element = held.element
    if dtype == tf.variant:
        inner = element.element if element is not None else None
        held_placement = placement if isinstance(placement, ListOf) else ListOf(REPLICATED)
        return Value(held_placement, shape, dtype, element=inner)
    if element is not None and element.constant is not None:
        return known_value(element.constant, dtype)
    return Value(placement, shape, dtype)


def _read(inputs: Sequence[Value], element: Placement, *outputs: Value) -> Placed:
    """Place an operation that reads elements of a list, and whose last input may be their shape."""
    counts, operand = {}, inputs[-1]
    if isinstance(element, Sharded) and operand.shape not in ((), None):
        counts = {len(inputs) - 1: [a == element.axis for a in range(operand.shape[0] or 0)]}
    demands = [inputs[0].placement, *[REPLICATED] * len(inputs[1:])]
    return _placed(demands, *outputs, counts_rows=counts)


def _placed(demands: Sequence[Placement], *outputs: Value, **changes: Any) -> Placed:
    return Decision(tuple(demands), tuple(v.placement for v in outputs), **changes), [*outputs]
