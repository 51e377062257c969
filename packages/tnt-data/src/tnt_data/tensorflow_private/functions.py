"""The traced functions inside steps: what they hide, and how to call them again without tracing."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.data.util import structure
from tensorflow.python.framework import op_def_registry

_BATCH_OPS = ("BatchDataset", "ParallelBatchDataset", "PaddedBatchDataset")
_SHUFFLE_OPS = ("ShuffleDataset", "ShuffleAndRepeatDataset")
_PYTHON_OPS = ("EagerPyFunc", "PyFunc")
_FORGETFUL_OPS = (
    # What control flow and functions call is looked at by itself; data are made and used up inside.
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


def traced_functions(dataset: tf.data.Dataset) -> list[Any]:
    """Wrappers of the functions that a step calls for its elements, already traced."""
    return list(dataset._functions())


def call_again(wrapper: Any, function: Any = None) -> Callable[..., Any]:
    """A function that calls the traced one.

    The user's Python code does not run again: it might have side effects, or make other constants.

    Args:
        wrapper: One of `traced_functions`.
        function: A changed copy of the traced function, to be called instead.
    """
    captured = wrapper.function.captured_inputs if function else []

    def call(*arguments: Any) -> Any:
        spec = wrapper._input_structure
        element = arguments if type(spec) is tuple else arguments[0]
        flat = structure.to_tensor_list(spec, element)
        results = (function or wrapper.function)(*flat, *captured)
        return structure.from_compatible_tensor_list(wrapper.output_structure, results)

    replay: Callable[..., Any] = tf.autograph.experimental.do_not_convert(call)
    return replay


def find_hidden(wrappers: list[Any]) -> frozenset[str]:
    """What the functions contain; the words are those of `Step.hides`."""
    hidden: set[str] = set()
    for wrapper in wrappers:
        graph = wrapper.function.graph.as_graph_def()
        for nodes in (graph.node, *(function.node_def for function in graph.library.function)):
            hidden.update(_hidden_in(nodes))
    return frozenset(hidden)


def _hidden_in(nodes: Any) -> Iterator[str]:
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
        elif _draws(node):
            if node.op == "RandomShuffle":
                yield "permutes"
            yield "seeded random" if draws_from_seed(node) else "random"
        elif _is_stateful(node.op) and not _forgets(node.op):
            yield "state"


def is_unseeded_shuffle(node: Any, nodes: Any) -> bool:
    """Whether a node makes a dataset shuffle without a seed. Local.

    Args:
        node: The node.
        nodes: The nodes of the graph or function that it belongs to.
    """
    if not node.op.startswith(_SHUFFLE_OPS):
        return False
    names = [name.split(":")[0] for name in node.input[2:4]]
    return all(_is_zero(one) for one in nodes if one.name in names)


def draws_from_seed(node: Any) -> bool:
    """Whether a node draws random numbers that a seed determines. Local."""
    return _draws(node) and bool(node.attr["seed"].i or node.attr["seed2"].i)


def _draws(node: Any) -> bool:
    is_random = "seed" in node.attr and "seed2" in node.attr
    return is_random and "Dataset" not in node.op and _is_stateful(node.op)


def _forgets(operation: str) -> bool:
    return operation.startswith(_FORGETFUL_OPS) or "Dataset" in operation


@functools.cache
def _is_stateful(operation: str) -> bool:
    """Whether TensorFlow says so; operations that it does not know are functions."""
    definition = op_def_registry.get(operation)
    return definition is not None and definition.is_stateful


def is_stateless(operation: str) -> bool:
    """Whether an operation gives the same result for the same inputs. Local.

    Args:
        operation: Its type; functions that a graph calls count as not stateless.
    """
    return op_def_registry.get(operation) is not None and not _is_stateful(operation)


def is_identity(wrapper: Any) -> bool:
    """Whether a function returns its arguments, so that TensorFlow may leave its step out. Local.

    Args:
        wrapper: One of `traced_functions`.
    """
    graph = wrapper.function.graph
    return [_origin(tensor).name for tensor in graph.outputs] == [t.name for t in graph.inputs]


def _origin(tensor: Any) -> Any:
    while tensor.op.type == "Identity":
        tensor = tensor.op.inputs[0]
    return tensor


def _is_zero(node: Any) -> bool:
    return node.op == "Const" and bool(np.all(tf.make_ndarray(node.attr["value"].tensor) == 0))
