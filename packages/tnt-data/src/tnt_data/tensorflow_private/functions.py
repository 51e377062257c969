"""The traced functions inside steps: what they hide, and how to call them again without tracing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.data.util import structure

_BATCH_OPS = ("BatchDataset", "ParallelBatchDataset", "PaddedBatchDataset")
_SHUFFLE_OPS = ("ShuffleDataset", "ShuffleAndRepeatDataset")
_RANDOM_OPS = ("Random", "Multinomial", "TruncatedNormal", "ParameterizedTruncatedNormal")


def traced_functions(dataset: tf.data.Dataset) -> list[Any]:
    """Wrappers of the functions that a step calls for its elements, already traced."""
    return list(dataset._functions())


def call_again(wrapper: Any) -> Callable[..., Any]:
    """A function that calls the traced one.

    The user's Python code does not run again: it might have side effects, or make other constants.
    """

    def call(*arguments: Any) -> Any:
        spec = wrapper._input_structure
        element = arguments if type(spec) is tuple else arguments[0]
        flat = structure.to_tensor_list(spec, element)
        return structure.from_compatible_tensor_list(
            wrapper.output_structure, wrapper.function(*flat)
        )

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
    by_name = {node.name: node for node in nodes}
    for node in nodes:
        if node.op.startswith(_BATCH_OPS):
            yield "batch"
        elif node.op.startswith("UnbatchDataset"):
            yield "unbatch"
        elif node.op == "GeneratorDataset":
            yield "generator"
        elif node.op.startswith(_SHUFFLE_OPS):
            seeds = [by_name.get(name.split(":")[0]) for name in node.input[2:4]]
            if all(_is_zero(seed) for seed in seeds):
                yield "shuffle"
        elif node.op.startswith(_RANDOM_OPS) and _lacks_seed(node):
            yield "random"


def _lacks_seed(node: Any) -> bool:
    return "seed" in node.attr and node.attr["seed"].i == node.attr["seed2"].i == 0


def _is_zero(node: Any) -> bool:
    if node is None or node.op != "Const":
        return False
    return bool(np.all(tf.make_ndarray(node.attr["value"].tensor) == 0))
