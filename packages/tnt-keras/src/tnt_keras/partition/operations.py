"""Operations of a TensorFlow graph as data: their attributes, and how one is made."""

from __future__ import annotations

import contextlib
import functools
import gc
import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

# Without its wrapper, which spends more time on a deprecated argument than the method on its work.
_create_op = inspect.unwrap(tf.Graph.create_op)

ADDITIONS = {"Add", "AddN", "AddV2"}

_NO_MEANING = ("_output_shapes", "_gradient_op_type")


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Pause Python's garbage collector while a graph is made.

    It would look at all operations again and again, a third of the time, and nothing is garbage.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def attributes_of(graph: tf.Graph) -> dict[str, dict[str, tf.compat.v1.AttrValue]]:
    """Return, for each operation of a graph by name, its attributes. Reads the graph once."""
    return {
        node.name: {key: value for key, value in node.attr.items() if key not in _NO_MEANING}
        for node in graph.as_graph_def().node
    }


def python_value(attribute: tf.compat.v1.AttrValue) -> Any:
    """Return an attribute as what Python has for it: types as `tf.DType`, shapes as tuples."""
    kind = attribute.WhichOneof("value")
    if kind == "type":
        return tf.as_dtype(attribute.type)
    if kind == "shape":
        return _shape(attribute.shape)
    if kind != "list":
        return getattr(attribute, kind) if kind else None
    values = attribute.list
    if values.type:
        return [tf.as_dtype(t) for t in values.type]
    if values.shape:
        return [_shape(s) for s in values.shape]
    return next(
        (list(getattr(values, k)) for k in ("b", "i", "f", "s", "func") if getattr(values, k)), []
    )


def attribute(value: Any) -> tf.compat.v1.AttrValue:
    """Return a Python value as an attribute: the reverse of `python_value`."""
    make = tf.compat.v1.AttrValue
    if isinstance(value, make):
        return value
    match value:
        case bool():
            return make(b=value)
        case int():
            return make(i=value)
        case float():
            return make(f=value)
        case bytes():
            return make(s=value)
        case tf.DType():
            return make(type=value.as_datatype_enum)
        case tf.TensorShape():
            return make(shape=value.as_proto())
        case list():
            return _list_attribute(value)
    raise TypeError(f"No attribute can be made of {value!r}.")


class Attributes(Mapping[str, Any]):
    """The attributes of an operation as Python values, converted when they are read."""

    def __init__(self, attributes: Mapping[str, tf.compat.v1.AttrValue]) -> None:
        self.proto = attributes
        self._values: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._values:
            self._values[name] = python_value(self.proto[name])
        return self._values[name]

    def __iter__(self) -> Any:
        return iter(self.proto)

    def __len__(self) -> int:
        return len(self.proto)

    @property
    def of_operation(self) -> dict[str, tf.compat.v1.AttrValue]:
        """Those that the type of the operation has; others begin with an underscore."""
        return {name: value for name, value in self.proto.items() if name[0] != "_"}


def functions_in(attribute: tf.compat.v1.AttrValue) -> list[tf.compat.v1.NameAttrList]:
    """Return the functions that an attribute names."""
    if attribute.WhichOneof("value") == "func":
        return [attribute.func]
    return list(attribute.list.func)


def create(
    operation_type: str,
    inputs: Sequence[tf.Tensor],
    dtypes: Sequence[tf.DType],
    name: str,
    attributes: Mapping[str, tf.compat.v1.AttrValue],
) -> list[tf.Tensor]:
    """Make an operation in the graph that is being built, and return its outputs."""
    return list(create_operation(operation_type, inputs, dtypes, name, attributes).outputs)


def create_operation(
    operation_type: str,
    inputs: Sequence[tf.Tensor],
    dtypes: Sequence[tf.DType],
    name: str,
    attributes: Mapping[str, tf.compat.v1.AttrValue],
) -> tf.Operation:
    """Make an operation as `create` does, and return it itself."""
    graph = tf.compat.v1.get_default_graph()
    return _create_op(
        graph, operation_type, list(inputs), list(dtypes), name=name, attrs=dict(attributes)
    )


def sum_of(terms: Sequence[tf.Tensor], name: str) -> tf.Operation:
    """Add numbers in their order, which no other addition before or after changes.

    TensorFlow makes one sum of additions of additions. Of three terms or more it adds first what
    is in a buffer that has become free, so that ranks would not get the same bits.
    """
    total = terms[0]
    for term in terms[1:]:
        operands = [
            tf.raw_ops.Snapshot(input=t) if t.op.type in ADDITIONS else t for t in (total, term)
        ]
        attributes = {"T": attribute(total.dtype)}
        [total] = create("AddV2", operands, [total.dtype], name, attributes)
    return total.op


@functools.cache
def definition(operation_type: str) -> Any:
    """Return TensorFlow's definition of a type of operation, None for the name of a function."""
    try:
        return tf.Graph().op_def_for_type(operation_type)
    except (KeyError, RuntimeError, TypeError, tf.errors.NotFoundError):
        return None


def is_stateful(operation_type: str) -> bool:
    """Return whether TensorFlow says that an operation has a state or effects."""
    found = definition(operation_type)
    return found is None or found.is_stateful


def _shape(proto: Any) -> tuple[int | None, ...] | None:
    if proto.unknown_rank:
        return None
    return tuple(None if d.size < 0 else int(d.size) for d in proto.dim)


def _list_attribute(values: list[Any]) -> tf.compat.v1.AttrValue:
    make = tf.compat.v1.AttrValue.ListValue
    if all(isinstance(v, int) for v in values):
        made = make(i=values)
    elif all(isinstance(v, tf.DType) for v in values):
        made = make(type=[v.as_datatype_enum for v in values])
    elif all(isinstance(v, tf.TensorShape) for v in values):
        made = make(shape=[v.as_proto() for v in values])
    else:
        raise TypeError(f"No attribute can be made of {values!r}.")
    return tf.compat.v1.AttrValue(list=made)
