"""A function of a process made anew, with clusters of its operations as functions for XLA."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from tnt_keras.partition.across_ranks import AcrossRanks
from tnt_keras.partition.clusters import Stage, stages_of
from tnt_keras.partition.operations import Attributes, attributes_of, create, is_handle


def compiled(function: Any, across_ranks: AcrossRanks) -> tuple[Any, int]:
    """Return a concrete function whose operations, but those of exchanges, XLA compiles. Local.

    Returned is the number of clusters, too. The given function must live as long.
    """
    graph = function.graph
    num_given = len(graph.inputs) - len(function.captured_inputs)
    stages = stages_of(graph, across_ranks)
    attributes = {name: Attributes(each) for name, each in attributes_of(graph).items()}

    def step(*tensors: tf.Tensor) -> list[tf.Tensor]:
        outer = tf.compat.v1.get_default_graph()
        captured = [outer.capture(tensor) for tensor in function.captured_inputs]
        given = zip(graph.inputs, [*tensors, *captured], strict=True)
        copy = _Copy(attributes, {tensor.ref(): own for tensor, own in given})
        for number, stage in enumerate(stages):
            if stage.is_cluster:
                _make_cluster(copy, stage, f"cluster_{number}")
            else:
                copy.make(stage.operations)
        return [copy.tensor(tensor) for tensor in graph.outputs]

    specs = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in graph.inputs[:num_given]]
    made = tf.function(step, autograph=False).get_concrete_function(*specs)
    return made, sum(stage.is_cluster for stage in stages)


class _Copy:
    """What operations and tensors of a graph have become in the graph that is being built.

    `outer` is the copy in the graph around that, whose tensors can be read.
    """

    def __init__(
        self,
        attributes: Mapping[str, Attributes],
        tensors: dict[Any, tf.Tensor],
        outer: _Copy | None = None,
    ) -> None:
        self.attributes = attributes
        self._tensors = tensors
        self._outer = outer
        self._operations: dict[tf.Operation, tf.Operation] = {}

    def tensor(self, tensor: tf.Tensor) -> tf.Tensor:
        """Return what a tensor has become. XLA must know constants: each graph has its own."""
        key = tensor.ref()
        if key not in self._tensors:
            if tensor.op.type == "Const":
                with tf.control_dependencies(None):
                    self._make(tensor.op)
            elif self._outer is not None:
                known = _known(tensor)
                if known is None:
                    return self._outer.tensor(tensor)
                with tf.control_dependencies(None):
                    self._tensors[key] = tf.constant(known, tensor.dtype)
        return self._tensors[key]

    def make(self, operations: Sequence[tf.Operation]) -> None:
        """Make operations, each after those that it waits for."""
        for operation in operations:
            with tf.control_dependencies(self.before([operation])):
                self._make(operation)

    def before(self, operations: Sequence[tf.Operation]) -> list[tf.Operation]:
        """Return what was made of the operations that any of these waits for."""
        controls = (control for each in operations for control in each.control_inputs)
        return list({self._operations[c]: None for c in controls if c in self._operations})

    def became(
        self, operations: Sequence[tf.Operation], call: tf.Operation, tensors: dict[Any, tf.Tensor]
    ) -> None:
        """Note that a call has taken the place of operations."""
        self._operations |= dict.fromkeys(operations, call)
        self._tensors |= tensors

    def _make(self, operation: tf.Operation) -> None:
        inputs = [self.tensor(tensor) for tensor in operation.inputs]
        dtypes = [tensor.dtype for tensor in operation.outputs]
        attributes = self.attributes[operation.name].of_operation
        # XLA compiles a cluster for one device, whatever its operations say.
        with tf.device(operation.device if self._outer is None else None):
            made = create(operation.type, inputs, dtypes, operation.name, attributes)
        self._operations[operation] = made
        for tensor, own in zip(operation.outputs, made.outputs, strict=True):
            if not is_handle(tensor.dtype):
                own.set_shape(tensor.shape)
            self._tensors[tensor.ref()] = own


def _known(tensor: tf.Tensor) -> Any:
    """Return integers, such as sizes, that are known without a run; else None."""
    return tf.get_static_value(tensor) if tensor.dtype.is_integer else None


def _make_cluster(copy: _Copy, stage: Stage, name: str) -> None:
    """Make a function of a cluster for XLA, and call it."""

    def cluster() -> list[tf.Tensor]:
        inner = _Copy(copy.attributes, {}, copy)
        inner.make(stage.operations)
        return [inner.tensor(tensor) for tensor in stage.results]

    cluster.__name__ = name
    graph = tf.compat.v1.get_default_graph()
    num_before = len(graph.get_operations())
    with tf.control_dependencies(copy.before(stage.operations)):
        made = tf.function(cluster, autograph=False, jit_compile=True)()
    [call] = [
        each
        for each in graph.get_operations()[num_before:]
        if each.type.endswith("PartitionedCall")
    ]
    pairs = zip(stage.results, made or [], strict=True)
    copy.became(stage.operations, call, {tensor.ref(): own for tensor, own in pairs})
