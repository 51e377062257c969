"""The traced graph as a list of nodes: calls are inlined, and what nobody needs is left out.

Calls of local regions, functions that each replica applies to its own rows, stay what they are.
"""

from __future__ import annotations

import copy
import dataclasses
import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import tensorflow as tf

from tnt_keras.keras_hooks.private_tensorflow import called_function
from tnt_keras.partition.operations import Attributes, attributes_of, definition, has_effect

ALIASES = {"Identity", "IdentityN", "PreventGradient", "Snapshot", "StopGradient"}
"""Operations whose outputs are their inputs."""
_CALLS = {"PartitionedCall", "StatefulPartitionedCall"}
_CONDS = {"If", "StatelessIf"}
_NOTHING = {"Const", "Identity", "NoOp", "Placeholder"}
_LOCAL_REGION = "tnt_keras.local_region"
_numbers = itertools.count()
_THIS_PACKAGE = str(Path(__file__).parents[1])
_NOT_THE_USERS = ("site-packages", "dist-packages", "/lib/python3", _THIS_PACKAGE, "<")


@dataclasses.dataclass(slots=True, eq=False)
class Node:
    """An operation of the traced step. Each inlined copy of an operation is a node of its own."""

    type: str  # "Argument" for an input of the graph, without `operation`
    name: str  # unique in the step: it begins with those of the calls that it was inlined from
    operation: Any
    index: int  # the place in the order of the trace
    inputs: list[Edge] = dataclasses.field(default_factory=list)
    controls: list[Node] = dataclasses.field(default_factory=list)
    attributes: Attributes = dataclasses.field(default_factory=lambda: Attributes({}))
    dtypes: list[tf.DType] = dataclasses.field(default_factory=list)
    shapes: list[tf.TensorShape] = dataclasses.field(default_factory=list)  # for any batch
    body: Any = None  # the graph of a local region

    @property
    def has_effect(self) -> bool:
        """Whether it must run even if nothing reads its outputs."""
        return has_effect(self.type)

    def __repr__(self) -> str:
        return f"{self.type} {self.name}"


Edge: TypeAlias = tuple[Node, int]
Decide: TypeAlias = Callable[[Node], bool | None]


class FlatGraph:
    """A graph in which all calls are inlined: arguments, and needed nodes in order of the trace.

    In loops and branches, and in steps that take second derivatives, local regions are ordinary
    functions, of the whole batch. `decide` returns for a `tf.cond` True or False for the branch to
    inline in its place, None if either may be taken.
    """

    def __init__(self, graph: Any, decide: Decide | None = None, *, is_step: bool = False) -> None:
        self._decide = decide
        self._keeps_regions = is_step and not _has_second_derivatives(graph)
        self._attributes: dict[Any, dict[str, Any]] = {}
        self._all: list[Node] = []
        self.arguments = [
            Node("Argument", t.op.name, None, -1, dtypes=[t.dtype], shapes=[t.shape])
            for t in graph.inputs
        ]
        outputs, _ = self._inline(graph, [(a, 0) for a in self.arguments], "", [])
        self.outputs = [_returned(edge) for edge in outputs]
        self.nodes = _needed(self._all, self.outputs)
        self._all = []
        self._attributes = {}

    def without(self, arguments: Sequence[Node]) -> FlatGraph:
        """Return the graph of the effects that need none of these arguments. It has no outputs."""
        excluded: set[Node] = set(arguments)
        for node in self.nodes:
            if not excluded.isdisjoint([*(source for source, _ in node.inputs), *node.controls]):
                excluded.add(node)
        reduced = copy.copy(self)
        reduced.outputs = []
        reduced.nodes = _needed([n for n in self.nodes if n not in excluded], [])
        return reduced

    def _inline(
        self, graph: Any, arguments: Sequence[Edge], prefix: str, entry: Sequence[Node]
    ) -> tuple[list[Edge], list[Node]]:
        """Add the nodes of a graph after those of `entry`, and return its outputs and the nodes."""
        if graph not in self._attributes:
            self._attributes[graph] = attributes_of(graph)
        sources: dict[str, Edge] = {
            tensor.name: edge for tensor, edge in zip(graph.inputs, arguments, strict=True)
        }
        done: dict[str, list[Node]] = {}
        added: list[Node] = []
        for operation in _in_order(graph):
            if operation.outputs and operation.outputs[0].name in sources:
                continue
            controls = _unique(n for c in operation.control_inputs for n in done.get(c.name, ()))
            inputs = [sources[t.name] for t in operation.inputs]
            body = self._body_to_inline(operation)
            if body is None and operation.type in _CONDS:
                body = self._decided(operation, inputs) or _assertion(operation)
                inputs = inputs if body is None else inputs[1:]
            if operation.type in ("NoOp", "ControlTrigger"):
                done[operation.name] = controls
                continue
            if body is not None:
                outer = controls or list(entry)
                edges, nodes = self._inline(body, inputs, f"{prefix}{operation.name}/", outer)
                done[operation.name] = _unique(
                    [n for n in nodes if n.has_effect] + [n for n, _ in edges if n.operation]
                )
                edges = edges[: len(operation.outputs)]  # a gradient adds outputs to the function
                added += nodes
            else:
                node = self._node(operation, prefix, inputs)
                is_entry = all(source in arguments for source in inputs) or node.has_effect
                node.controls = _unique([*controls, *(entry if is_entry else ())])
                edges = [(node, i) for i in range(len(node.dtypes))]
                # Nothing is made for an alias: what comes after it comes after its inputs.
                is_alias = node.type in ALIASES and not node.controls
                before = _unique(n for n, _ in inputs if n.operation)
                done[operation.name] = before if is_alias else [node]
                added.append(node)
                self._all.append(node)
            for tensor, edge in zip(operation.outputs, edges, strict=True):
                sources[tensor.name] = edge
        return [sources[t.name] for t in graph.outputs], added

    def _decided(self, operation: Any, inputs: list[Edge]) -> Any:
        node = Node(operation.type, operation.name, operation, -1, inputs)
        taken = None if self._decide is None else self._decide(node)
        if taken is None:
            return None
        name = operation.get_attr("then_branch" if taken else "else_branch").name
        return called_function(operation.graph, name).graph

    def _node(self, operation: Any, prefix: str, inputs: list[Edge]) -> Node:
        node = Node(operation.type, prefix + operation.name, operation, len(self._all), inputs)
        node.attributes = Attributes(self._attributes[operation.graph].get(operation.name, {}))
        node.dtypes = [t.dtype for t in operation.outputs]
        node.shapes = [t.shape for t in operation.outputs]
        if operation.type in _CALLS:
            node.body = function_of(node, node.attributes["f"].name).graph
        return node

    def _body_to_inline(self, operation: Any) -> Any:
        """Return the graph that an operation calls, None if it is a local region or no call."""
        if operation.type in _CALLS:
            function = called_function(operation.graph, operation.get_attr("f").name)
            is_kept = self._keeps_regions and _is_local_region(function)
            return None if is_kept else function.graph
        is_call = definition(operation.type) is None
        return called_function(operation.graph, operation.type).graph if is_call else None


def _assertion(operation: Any) -> Any:
    """Return the asserting branch of a `tf.cond` that only asserts its condition, else None."""
    names = [operation.get_attr(name).name for name in ("then_branch", "else_branch")]
    passed, failed = (called_function(operation.graph, name).graph for name in names)
    kinds = [{o.type for o in graph.get_operations()} for graph in (passed, failed)]
    if kinds[0] - _NOTHING or kinds[1] - _NOTHING != {"Assert"}:
        return None
    conditions = [o.inputs[0] for o in failed.get_operations() if o.type == "Assert"]
    arguments = zip(failed.inputs, operation.inputs[1:], strict=True)
    same = [inner for inner, outer in arguments if outer is operation.inputs[0]]
    return failed if all(any(c is t for t in same) for c in conditions) else None


def local_region(
    function: Callable[..., Any], signature: Sequence[tf.TensorSpec] | None = None
) -> Any:
    """Return a function, without captures, that replicas apply to their own rows. Local.

    `signature` leaves open how many rows there are, where the whole batch has a number that the
    trace knows: a function that has folded it would not be one of a replica's rows.
    """
    # The one attribute that TensorFlow hands on to the functions it makes for gradients. It takes
    # functions of one name for implementations of one interface: so each has a name of its own.
    name = f"{_LOCAL_REGION}.{next(_numbers)}"
    return tf.function(
        function,
        input_signature=signature,
        autograph=False,
        experimental_attributes={"api_implements": name},
    )


def _is_local_region(function: Any) -> bool:
    """Return whether a function is a local region, or the gradient of one."""
    attributes = function.definition.attr
    return bool(attributes["api_implements"].s.decode().startswith(_LOCAL_REGION))


def _has_second_derivatives(graph: Any) -> bool:
    """Return whether a graph, or what it calls, takes derivatives of gradients of local regions."""
    calls = (operation for operation in graph.get_operations() if operation.type in _CALLS)
    functions = [called_function(graph, call.get_attr("f").name) for call in calls]
    names = ("forward_function_name", "backward_function_name")
    return any(
        all(function.definition.attr[name].s for name in names)
        if _is_local_region(function)
        else _has_second_derivatives(function.graph)
        for function in functions
    )


def function_of(node: Node, name: str) -> Any:
    """Return a function that a node calls, with its `graph`."""
    return called_function(node.operation.graph, name)


def gradient_of(node: Node) -> str:
    """Return the name of the function whose gradient a call computes, "" if it computes none."""
    function = function_of(node, node.attributes["f"].name)
    return str(function.definition.attr["forward_function_name"].s.decode())


def past_aliases(edge: Edge) -> Edge:
    """Return where a value comes from, past operations that leave it as it is."""
    while edge[0].type == "Identity":
        edge = edge[0].inputs[0]
    return edge


def users_line(node: Node | None) -> str:
    """Return the innermost line of the user's own code that made an operation, "" if none did."""
    if node is None or node.operation is None:
        return ""
    for frame in reversed(list(getattr(node.operation, "traceback", None) or ())):
        if not any(part in frame.filename for part in _NOT_THE_USERS):
            return f"{frame.filename}:{frame.lineno}"
    return ""


def _in_order(graph: Any) -> Iterator[Any]:
    """Yield operations by creation, but after their inputs, to which gradients of loops add."""
    operations = graph.get_operations()
    index = {op.name: i for i, op in enumerate(operations)}
    missing: list[int] = []
    users: list[list[int]] = [[] for _ in operations]
    for i, op in enumerate(operations):
        before = {index[t.op.name] for t in op.inputs}
        before |= {index[c.name] for c in op.control_inputs if c.name in index}
        missing.append(len(before))
        for b in before:
            users[b].append(i)
    ready = [i for i, count in enumerate(missing) if not count]
    while ready:
        i = heapq.heappop(ready)
        yield operations[i]
        for user in users[i]:
            missing[user] -= 1
            if not missing[user]:
                heapq.heappush(ready, user)


def _returned(edge: Edge) -> Edge:
    """Return where an output comes from, past TensorFlow's copy that waits for all effects."""
    node, _ = edge
    return node.inputs[0] if node.type == "Identity" and node.controls else edge


def _needed(nodes: Sequence[Node], outputs: Sequence[Edge]) -> list[Node]:
    """Return the nodes that outputs and effects depend on, in the order of the trace."""
    needed: set[Node] = set()
    todo = [n for n, _ in outputs] + [n for n in nodes if n.has_effect]
    while todo:
        node = todo.pop()
        if node in needed:
            continue
        needed.add(node)
        todo += [source for source, _ in node.inputs] + node.controls
    return [n for n in nodes if n in needed]


def _unique(nodes: Iterable[Node]) -> list[Node]:
    return list(dict.fromkeys(nodes))
