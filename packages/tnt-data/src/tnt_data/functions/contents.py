"""Find out what the traced functions of transformations contain."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from tnt_data.functions.python_code import draws_random_numbers
from tnt_data.tensorflow_private import TracedFunction, definition_of, python_code_of

_BATCH_OPS = ("BatchDataset", "ParallelBatchDataset", "PaddedBatchDataset")
_SHUFFLE_OPS = ("ShuffleDataset", "ShuffleAndRepeatDataset")
_KEYS_OF_DRAWS = "StatelessRandomGet"
_PYTHON_OPS = ("EagerPyFunc", "PyFunc")
_ORDER_INDEPENDENT_OPS = (
    # Functions that these call are looked at by themselves; datasets are made and read inside.
    *("If", "Case", "While", "StatefulPartitionedCall", "TensorArray", "MakeIterator"),
    *("AnonymousIterator", "OneShotIterator", "IteratorGetNext", "DeleteIterator"),
    # Tables and variables that are only read.
    *("HashTable", "AnonymousHashTable", "MutableHashTable", "MutableDenseHashTable"),
    *("AnonymousMutableHashTable", "AnonymousMutableDenseHashTable"),
    *("InitializeTable", "LookupTableFind", "LookupTableSize", "LookupTableExport"),
    *("VarHandleOp", "ReadVariableOp", "VarIsInitializedOp", "VariableShape", "ResourceGather"),
    *("Assert", "CheckNumerics", "Print", "StatelessRandomGetAlg", "Empty", "GuaranteeConst"),
)
"""Operations that TensorFlow calls stateful, but which give the same result in every order."""


def contents_of(functions: list[TracedFunction]) -> frozenset[str]:
    """Return what is found inside functions, in these words. Local."""
    # `"batch"`, `"unbatch"`, `"shuffle"` (unseeded), `"generator"`, `"random"` (numbers without a
    # seed), `"seeded random"`, `"permutes"` (at random), `"state"` (operations that remember
    # something), `"stateless random"` (numbers from a seed that is an input), `"random state"`
    # (both, as of a `tf.random.Generator`), `"python"` (Python code).
    found: set[str] = set()
    for traced in functions:
        graph = traced.function.graph.as_graph_def()
        for nodes in (graph.node, *(called.node_def for called in graph.library.function)):
            found.update(_contents_of_nodes(nodes))
    if found >= {"state", "stateless random"}:
        found.add("random state")
    return frozenset(found)


def _contents_of_nodes(nodes: Any) -> Iterator[str]:
    for node in nodes:
        if node.op.startswith(_BATCH_OPS):
            yield "batch"
        elif node.op.startswith("UnbatchDataset"):
            yield "unbatch"
        elif node.op == "GeneratorDataset":
            yield "generator"
        elif is_unseeded_shuffle(node, nodes):
            yield "shuffle"
        elif node.op in _PYTHON_OPS:
            yield "python"
            if draws_random_numbers(python_code_of(node)):
                yield "random"
        elif _draws(node):
            if node.op == "RandomShuffle":
                yield "permutes"
            yield "seeded random" if draws_from_seed(node) else "random"
        elif node.op.startswith("StatelessRandom") and not node.op.startswith(_KEYS_OF_DRAWS):
            yield "stateless random"
        elif _is_stateful(node.op) and not _is_order_independent(node.op):
            yield "state"


def is_unseeded_shuffle(node: Any, nodes: Any) -> bool:
    """Return whether a node makes a dataset shuffle without a seed. Local."""
    if not node.op.startswith(_SHUFFLE_OPS):
        return False
    names = [name.split(":")[0] for name in node.input[2:4]]
    return all(_is_zero(one) for one in nodes if one.name in names)


def draws_from_seed(node: Any) -> bool:
    """Return whether a node draws random numbers that a seed determines. Local."""
    return _draws(node) and bool(node.attr["seed"].i or node.attr["seed2"].i)


def _draws(node: Any) -> bool:
    is_random = "seed" in node.attr and "seed2" in node.attr
    return is_random and "Dataset" not in node.op and _is_stateful(node.op)


def _is_order_independent(operation: str) -> bool:
    return operation.startswith(_ORDER_INDEPENDENT_OPS) or "Dataset" in operation


@functools.cache
def _is_stateful(operation: str) -> bool:
    """Return whether TensorFlow says so; operations that it does not know are functions."""
    definition = definition_of(operation)
    return definition is not None and bool(definition.is_stateful)


def is_stateless(operation: str) -> bool:
    """Return whether an operation gives the same result for the same inputs. Local."""
    # Functions that a graph calls count as not stateless.
    return definition_of(operation) is not None and not _is_stateful(operation)


def is_identity(traced: TracedFunction) -> bool:
    """Return whether a function returns its arguments, so that TensorFlow may skip it. Local."""
    graph = traced.function.graph
    return [_origin(tensor).name for tensor in graph.outputs] == [t.name for t in graph.inputs]


def _origin(tensor: Any) -> Any:
    while tensor.op.type == "Identity":
        tensor = tensor.op.inputs[0]
    return tensor


def _is_zero(node: Any) -> bool:
    return node.op == "Const" and bool(np.all(tf.make_ndarray(node.attr["value"].tensor) == 0))
