"""Operations with a state or effects: which may run in every process, and which on rank 0 alone.

A deterministic operation gives the same result in every process if its inputs are the same. Of the
stateful operations only those listed here are deterministic. Of every other one, known or not, the
result on rank 0 is broadcast. It runs there alone, unless it may change what each process has.
"""

from __future__ import annotations

import tensorflow as tf

from tnt_keras.partition.flat_graph import Node
from tnt_keras.partition.operations import definition, is_stateful

# They read and write state that is the same in all processes, in the same way; or have no state,
# and are marked as stateful so that they are not left out.
_DETERMINISTIC = {
    "AnonymousHashTable", "AnonymousMutableDenseHashTable", "AnonymousMutableHashTable",
    "AnonymousMutableHashTableOfTensors", "AssignAddVariableOp", "AssignSubVariableOp",
    "AssignVariableOp", "CheckNumerics", "CheckNumericsV2", "Empty", "HashTableV2",
    "InitializeTableV2",
    "LookupTableExportV2", "LookupTableFindV2", "LookupTableImportV2", "LookupTableInsertV2",
    "LookupTableRemoveV2", "LookupTableSizeV2", "MutableDenseHashTableV2", "MutableHashTableV2",
    "MutableHashTableOfTensorsV2", "ReadVariableOp", "ResourceAccumulatorApplyGradient",
    "ResourceGather", "ResourceGatherNd", "ResourceScatterAdd", "ResourceScatterDiv",
    "ResourceScatterMax", "ResourceScatterMin", "ResourceScatterMul", "ResourceScatterNdAdd",
    "ResourceScatterNdMax", "ResourceScatterNdMin", "ResourceScatterNdSub",
    "ResourceScatterNdUpdate", "ResourceScatterSub", "ResourceScatterUpdate",
    "ResourceStridedSliceAssign", "RngReadAndSkip", "RngSkip", "VarHandleOp",
    "VarIsInitializedOp", "VariableShape",
}  # fmt: skip

_READS_THE_WORLD = {"MatchingFiles", "ReadFile"}  # and are not marked as stateful

CHECKS = {"Assert"}
"""They check what each lane has."""

OUTPUT = {
    "FlushSummaryWriter", "PrintV2", "Save", "SaveV2", "WriteAudioSummary", "WriteFile",
    "WriteGraphSummary", "WriteHistogramSummary", "WriteImageSummary", "WriteRawProtoSummary",
    "WriteScalarSummary", "WriteSummary",
}  # fmt: skip
"""They tell the world something, once: rank 0 does, and nobody reads what they return."""


def runs_on_first(node: Node) -> bool:
    """Return whether the result of an operation is that of rank 0 on all ranks. Local."""
    if any(dtype in (tf.resource, tf.variant) for dtype in node.dtypes):
        return False
    return not _is_deterministic(node.type, node)


def _is_deterministic(operation_type: str, node: Node) -> bool:
    if operation_type in _DETERMINISTIC or operation_type.startswith("ResourceApply"):
        return True
    if operation_type.startswith("ResourceSparseApply"):
        return True
    if is_stateful(operation_type) or operation_type in _READS_THE_WORLD:
        return False
    return not _calls_stateful(node)


def _calls_stateful(node: Node) -> bool:
    """Return whether a stateless operation calls a function with a stateful operation."""
    if not any(a.type in ("func", "list(func)") for a in definition(node.type).attr):
        return False
    library = node.operation.graph.as_graph_def().library.function
    bodies = {function.signature.name: function for function in library}
    todo = [f.name for value in node.attributes.proto.values() for f in _functions(value)]
    seen: set[str] = set()
    while todo:
        name = todo.pop()
        if name in seen or name not in bodies:
            continue
        seen.add(name)
        for inner in bodies[name].node_def:
            if inner.op not in _DETERMINISTIC and is_stateful(inner.op):
                return True
            todo += [f.name for value in inner.attr.values() for f in _functions(value)]
    return False


def _functions(attribute: tf.compat.v1.AttrValue) -> list[tf.compat.v1.NameAttrList]:
    if attribute.WhichOneof("value") == "func":
        return [attribute.func]
    return list(attribute.list.func)
