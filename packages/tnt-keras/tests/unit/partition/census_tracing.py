"""Operation types of a traced call: of its graph, its gradients and all bodies inside."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Example:
    """Arguments of one call; each `tf.TypeSpec` among them is an input of the graph."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def with_arguments(self, **kwargs: Any) -> Example:
        return Example(self.args, self.kwargs | kwargs)


def example(*args: Any, **kwargs: Any) -> Example:
    return Example(args, kwargs)


def traced_types(
    call: Callable[..., Any],
    arguments: Example,
    weights: Callable[[], list[tf.Variable]] = list,
    gradients: bool = True,
) -> set[str]:
    """Operation types of a call and of the derivatives of its float results.

    Args:
        call: What is traced.
        arguments: What it is called with.
        weights: Called after `call`: derivatives are taken with respect to these and the inputs.
        gradients: Whether derivatives are taken at all. A call that has none is traced without.
    """
    structure = (arguments.args, arguments.kwargs)
    specs = [leaf for leaf in tf.nest.flatten(structure) if isinstance(leaf, tf.TypeSpec)]

    def forward(*inputs: Any) -> Any:
        left = iter(inputs)
        args, kwargs = tf.nest.map_structure(
            lambda leaf: next(left) if isinstance(leaf, tf.TypeSpec) else leaf, structure
        )
        return call(*args, **kwargs)

    def forward_and_backward(*inputs: Any) -> None:
        with tf.GradientTape() as tape:
            tape.watch(differentiable(inputs))
            results = differentiable(forward(*inputs))
        tape.gradient(results, [*weights(), *differentiable(inputs)])

    if gradients:
        try:
            return graph_types(traced(forward_and_backward, specs))
        except (LookupError, TypeError, ValueError, AttributeError, tf.errors.OpError):
            pass
    return graph_types(traced(forward, specs))


def traced(function: Callable[..., Any], specs: list[tf.TypeSpec]) -> tf.Graph:
    """The graph of a function. That of `tf.function`, but made in a third of the time."""
    if not all(isinstance(spec, tf.TensorSpec) for spec in specs):
        without_result = tf.function(lambda *inputs: (function(*inputs), None)[1], autograph=False)
        return without_result.get_concrete_function(*specs).graph
    graph = tf.__internal__.FuncGraph("census")
    with graph.as_default():
        function(*(tf.compat.v1.placeholder(spec.dtype, spec.shape) for spec in specs))
    return graph


def differentiable(values: Any) -> list[tf.Tensor]:
    leaves = tf.nest.flatten(values, expand_composites=True)
    return [
        leaf
        for leaf in leaves
        if isinstance(leaf, tf.Tensor) and (leaf.dtype.is_floating or leaf.dtype.is_complex)
    ]


def graph_types(graph: tf.Graph) -> set[str]:
    """Types of the operations of a graph and of all functions that it calls, however deep."""
    definition = graph.as_graph_def()
    bodies = {body.signature.name: body.node_def for body in definition.library.function}
    types: set[str] = set()
    waiting: list[Iterable[Any]] = [definition.node]
    while waiting:
        for node in waiting.pop():
            called = [name for value in node.attr.values() for name in functions_of(value)]
            waiting += [bodies.pop(name) for name in [node.op, *called] if name in bodies]
            types.add(node.op)
    return types - {body.signature.name for body in definition.library.function}


def functions_of(attribute: Any) -> list[str]:
    return [attribute.func.name, *(function.name for function in attribute.list.func)]
