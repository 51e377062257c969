"""Copy traced functions with changes in their graphs, without the user's Python code."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from tnt_data.tensorflow_private import add_function

_COPIES = itertools.count()

Edit = Callable[[Any], None]
"""Changes a graph definition."""


def copy_function(
    function: Any,
    # changes the definition of its graph, including functions that it calls
    edit: Edit = lambda graph: None,
    *,
    # specs of placeholders that `edit` has added, by name: first arguments
    added: Mapping[str, Any] | None = None,
    specs: Sequence[Any] | None = None,  # of the arguments that it takes instead of the original's
) -> Any:
    """Copy a traced function; the captures of the original become the copy's last arguments."""
    # Python functions that the graph calls live as long as the original.
    graph = function.graph.as_graph_def()
    edit(graph)
    _rename_functions(graph)
    for called in graph.library.function:
        add_function(called)
    added = added or {}
    specs = specs or [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in function.inputs]
    inputs = [f"{name}:0" for name in added] + [tensor.name for tensor in function.inputs]
    outputs = [tensor.name for tensor in function.outputs]

    def again(*arguments: tf.Tensor) -> list[tf.Tensor]:
        fed = dict(zip(inputs, arguments, strict=True))
        tensors: list[tf.Tensor] = tf.graph_util.import_graph_def(
            graph, input_map=fed, return_elements=outputs, name=""
        )
        return tensors

    signature = [*added.values(), *specs]
    return tf.function(again, input_signature=signature, autograph=False).get_concrete_function()


def all_nodes(graph: Any) -> list[Any]:
    """Return the nodes of a graph definition and of all functions in its library. Local."""
    nodes = list(graph.node)
    for function in graph.library.function:
        nodes += function.node_def
    return nodes


def _rename_functions(graph: Any) -> None:
    """Give the functions of a library other names, as those of the original keep theirs."""
    # TensorFlow knows functions by their names, and keeps the one that it knows.
    number = next(_COPIES)
    names = {
        function.signature.name: f"{function.signature.name}_tnt_data_{number}"
        for function in graph.library.function
    }
    for function in graph.library.function:
        function.signature.name = names[function.signature.name]
    for node in all_nodes(graph):
        node.op = names.get(node.op, node.op)
        for attribute in node.attr.values():
            for called in (attribute.func, *attribute.list.func):
                if called.name in names:
                    called.name = names[called.name]
