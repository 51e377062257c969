"""What all ranks must have in common of a traced step, in lines."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import tensorflow as tf

from tnt_keras.keras_hooks.private_tensorflow import called_function
from tnt_keras.partition.flat_graph import FlatGraph, Node, function_of
from tnt_keras.partition.operations import functions_in

_NAMES = {"container", "seed", "seed2", "shared_name", "token"}


def describe_graph(graph: Any, captures: Any, flat: FlatGraph) -> list[str]:
    """Return a line for each operation, with exactly what all ranks must have in common.

    These are types, attributes, shapes, edges and constants, by position and without names. Seeds
    may differ, since all ranks take those of rank 0.
    """
    places: dict[Node, int] = {n: -1 - i for i, n in enumerate(flat.arguments)}
    lines = [f"{t.dtype.name} {t.shape}" for t in graph.inputs]
    lines += [_constant_capture(t) for t in captures]
    for i, node in enumerate(flat.nodes):
        places[node] = i
        inputs = [(places.get(n), output) for n, output in node.inputs]
        controls = sorted(places.get(n, -1) for n in node.controls)
        attributes = sorted(
            (k, _described(node, v))
            for k, v in node.attributes.of_operation.items()
            if k not in _NAMES
        )
        lines.append(f"{node.type} {inputs} {controls} {attributes}")
    return lines


def _constant_capture(tensor: Any) -> str:
    """Return a hash of what a captured tensor holds, or the dtype of a resource."""
    if tensor.dtype in (tf.resource, tf.variant) or not hasattr(tensor, "numpy"):
        return tensor.dtype.name
    return hashlib.sha256(np.asarray(tensor.numpy()).tobytes()).hexdigest()


def _described(node: Node, attribute: tf.compat.v1.AttrValue) -> str:
    """Return an attribute as text. A function is described by its operations, not its name."""
    functions = functions_in(attribute)
    if not functions:
        return str(attribute)
    return str([_lines(function_of(node, f.name).graph) for f in functions])


def _lines(graph: Any) -> list[str]:
    """Return the operations of a body, by position and without names."""
    nodes = graph.as_graph_def().node
    places = {node.name: str(i) for i, node in enumerate(nodes)}
    lines = []
    for node in nodes:
        inputs = [
            (places.get(name.lstrip("^").split(":")[0]), name.split(":")[1:]) for name in node.input
        ]
        bodies = [
            _lines(called_function(graph, f.name).graph)
            for _, value in sorted(node.attr.items())  # their order differs between processes
            for f in functions_in(value)
        ]
        attributes = [(k, str(v)) for k, v in sorted(node.attr.items()) if _is_compared(k, v)]
        lines.append(f"{node.op} {inputs} {attributes} {bodies}")
    return lines


def _is_compared(name: str, attribute: tf.compat.v1.AttrValue) -> bool:
    """Return whether all ranks must have an attribute in common: not names, not seeds."""
    return name[0] != "_" and name not in _NAMES and not functions_in(attribute)
