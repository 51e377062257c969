"""Operations of a TensorFlow graph as data: attributes, state and effects, and how one is made.

A deterministic operation gives the same result in every process if its inputs are the same. Of the
stateful operations only those listed here are deterministic. Of every other one, known or not, the
result on rank 0 is broadcast. It runs there alone, unless it may change what each process has.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tnt_keras.partition.value import shape_of

if TYPE_CHECKING:
    from tnt_keras.partition.graph import Node

# Without its wrapper, which spends more time on a deprecated argument than the method on its work.
_create_op = inspect.unwrap(tf.Graph.create_op)

ADDITIONS = {"Add", "AddN", "AddV2"}

_NO_MEANING = ("_output_shapes", "_gradient_op_type")

# They read and write state that is the same in all processes, in the same way; or have no state,
# and are marked as stateful so that they are not left out.
_DETERMINISTIC = {
    "AnonymousHashTable", "AnonymousMutableDenseHashTable", "AnonymousMutableHashTable",
    "AnonymousMutableHashTableOfTensors", "AssignAddVariableOp", "AssignSubVariableOp",
    "AssignVariableOp", "CheckNumerics", "CheckNumericsV2", "Empty", "HashTableV2",
    "InitializeTableV2", "LookupTableExportV2", "LookupTableFindV2", "LookupTableImportV2",
    "LookupTableInsertV2", "LookupTableRemoveV2", "LookupTableSizeV2", "MutableDenseHashTableV2",
    "MutableHashTableV2", "MutableHashTableOfTensorsV2", "ReadVariableOp",
    "ResourceAccumulatorApplyGradient", "ResourceGather", "ResourceGatherNd",
    "ResourceScatterAdd", "ResourceScatterDiv", "ResourceScatterMax", "ResourceScatterMin",
    "ResourceScatterMul", "ResourceScatterNdAdd", "ResourceScatterNdMax", "ResourceScatterNdMin",
    "ResourceScatterNdSub", "ResourceScatterNdUpdate", "ResourceScatterSub",
    "ResourceScatterUpdate", "ResourceStridedSliceAssign", "RngReadAndSkip", "RngSkip",
    "VarHandleOp", "VarIsInitializedOp", "VariableShape",
}  # fmt: skip

_NO_EFFECT = {
    "Argument", "Placeholder", "PlaceholderWithDefault", "ReadVariableOp", "ResourceGather",
    "ResourceGatherNd", "VarHandleOp", "VarIsInitializedOp", "VariableShape",
    # Their state is their own: where nobody reads a draw, nobody misses it.
    "Multinomial", "ParameterizedTruncatedNormal", "RandomGamma", "RandomPoissonV2",
    "RandomShuffle", "RandomStandardNormal", "RandomUniform", "RandomUniformInt", "TruncatedNormal",
}  # fmt: skip

_READS_THE_WORLD = {"MatchingFiles", "ReadFile"}  # and are not marked as stateful

OUTPUT = {
    "FlushSummaryWriter", "PrintV2", "Save", "SaveV2", "WriteAudioSummary", "WriteFile",
    "WriteGraphSummary", "WriteHistogramSummary", "WriteImageSummary", "WriteRawProtoSummary",
    "WriteScalarSummary", "WriteSummary",
}  # fmt: skip
"""They tell the world something, once: rank 0 does, and nobody reads what they return."""


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
        return shape_of(tf.TensorShape(attribute.shape))
    if kind != "list":
        return getattr(attribute, kind) if kind else None
    values = attribute.list
    if values.type:
        return [tf.as_dtype(t) for t in values.type]
    if values.shape:
        return [shape_of(tf.TensorShape(s)) for s in values.shape]
    return [*values.b, *values.i, *values.f, *values.s, *values.func]  # all but one are empty


def attribute(value: Any) -> tf.compat.v1.AttrValue:
    """Return what a decision puts in the place of an attribute: a type, a shape, or a list."""
    make = tf.compat.v1.AttrValue
    match value:
        case tf.DType():
            return make(type=value.as_datatype_enum)
        case tf.TensorShape():
            return make(shape=value.as_proto())
        case [tf.TensorShape(), *_]:
            return make(list=make.ListValue(shape=[shape.as_proto() for shape in value]))
        case [int(), *_]:
            return make(list=make.ListValue(i=value))
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
    is_one = attribute.WhichOneof("value") == "func"
    return [attribute.func] if is_one else list(attribute.list.func)


def create(
    operation_type: str,
    inputs: Sequence[tf.Tensor],
    dtypes: Sequence[tf.DType],
    name: str,
    attributes: Mapping[str, tf.compat.v1.AttrValue],
) -> tf.Operation:
    """Make an operation in the graph that is being built."""
    graph, attrs = tf.compat.v1.get_default_graph(), dict(attributes)
    return _create_op(graph, operation_type, list(inputs), list(dtypes), name=name, attrs=attrs)


def sum_of(terms: Sequence[tf.Tensor], name: str) -> list[tf.Operation]:
    """Return operations, of which the last adds numbers in their order, whatever else is added.

    TensorFlow makes one sum of additions of additions. Of three terms or more it adds first what
    is in a buffer that has become free, so that ranks would not get the same bits.
    """
    total, made = terms[0], []
    for term in terms[1:]:
        operands = [
            tf.raw_ops.Snapshot(input=t) if t.op.type in ADDITIONS else t for t in (total, term)
        ]
        attributes = {"T": attribute(total.dtype)}
        made += [t.op for t in operands if t.op.type == "Snapshot"]
        made.append(create("AddV2", operands, [total.dtype], name, attributes))
        [total] = made[-1].outputs
    return made


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


def has_effect(operation_type: str) -> bool:
    """Return whether an operation must run even if nothing reads its outputs."""
    return operation_type not in _NO_EFFECT and is_stateful(operation_type)


def calls_functions(operation_type: str) -> bool:
    """Return whether a type of operation has functions among its attributes."""
    return any(a.type in ("func", "list(func)") for a in definition(operation_type).attr)


def is_python(node: Node) -> bool:
    """Return whether an operation calls Python code."""
    return node.type in ("PyFunc", "EagerPyFunc", "PyFuncStateless")


def is_deterministic(node: Node) -> bool:
    """Return whether an operation gives the same in every process if its inputs are the same."""
    updates = ("ResourceApply", "ResourceSparseApply")
    if node.type in _DETERMINISTIC or node.type.startswith(updates):
        return True
    if is_stateful(node.type) or node.type in _READS_THE_WORLD:
        return False
    return not (calls_functions(node.type) and _calls_stateful(node))


def _calls_stateful(node: Node) -> bool:
    """Return whether a stateless operation calls a function with a stateful operation."""
    library = node.operation.graph.as_graph_def().library.function
    bodies = {function.signature.name: function for function in library}
    todo = [f.name for value in node.attributes.proto.values() for f in functions_in(value)]
    while todo:
        body = bodies.pop(todo.pop(), None)  # once each
        for inner in body.node_def if body is not None else ():
            if inner.op not in _DETERMINISTIC and is_stateful(inner.op):
                return True
            todo += [f.name for value in inner.attr.values() for f in functions_in(value)]
    return False


def is_handle(dtype: tf.DType) -> bool:
    """Return whether values of a type are no numbers, but resources or lists."""
    return dtype in (tf.resource, tf.variant)
