"""Keras' own `fit`, `evaluate` and `predict`, with steps that run in n replicas of one process."""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
from step_replicas import OneProcess

from tnt_keras.api.first_step import build_optimizer
from tnt_keras.partition import REPLICATED, Input, Replicas, Sharded, build, trace

LOOPS = ("train", "test", "predict")


class KerasSteps:
    """The function that Keras calls for each step of one kind.

    Args:
        model: Whose steps are run.
        kind: "train", "test" or "predict".
        replicas: How many.
    """

    def __init__(self, model: keras.Model, kind: str, replicas: int) -> None:
        self.model, self.kind, self.replicas = model, kind, replicas
        self.traces: dict[Any, Any] = {}
        self.built: dict[Any, Any] = {}

    def __call__(self, iterator: Any) -> Any:
        if isinstance(iterator, list):  # batches to predict
            first, *others = [self.step(data) for data in iterator]
            if not others:
                return first
            return tf.nest.map_structure(lambda *parts: tf.concat(parts, 0), first, *others)
        outputs = None
        for i in range(self.model.steps_per_execution):
            try:
                outputs = self.step(next(iterator))
            except StopIteration:
                if i == 0:
                    raise
                break
        return outputs

    def step(self, data: Any) -> Any:
        method = getattr(self.model, f"{self.kind}_step")
        if self.model.run_eagerly:
            return method(data)
        flat = tf.nest.flatten(data)
        given = [t for t in flat if t is not None]

        def packed(*tensors: Any) -> Any:
            left = iter(tensors)
            leaves = [None if t is None else next(left) for t in flat]
            return method(tf.nest.pack_sequence_as(data, leaves))

        types_of = [tf.type_spec_from_value(t) for t in given]
        form = str(tf.nest.map_structure(lambda t: t is None, data))
        specs = [_any_rows(spec) for spec in types_of]
        key = form, str(specs)
        if key not in self.traces:
            if self.kind == "train":
                build_optimizer(self.model)
            self.traces[key] = trace(packed, specs, self._variables_of_metrics)
        parts = form, str(types_of)
        if parts not in self.built:
            self.built[parts] = self._build(self.traces[key], types_of, given)
        step, placements = self.built[parts]
        return step(*_local(given, placements, self.replicas))

    def _variables_of_metrics(self) -> list[tf.Variable]:
        return [each.value for metric in self.model.metrics for each in metric.variables]

    def _build(self, traced: Any, specs: Sequence[Any], given: Sequence[Any]) -> Any:
        tensors = tf.nest.flatten(given, expand_composites=True)
        is_plain = all(isinstance(s, tf.TensorSpec) for s in specs)
        sizes = [int(s.shape[0]) for s in specs if is_plain and s.shape.rank]
        rows = max(set(sizes), key=sizes.count) if sizes else 0
        is_cut = rows >= self.replicas
        placements = [
            Sharded(0) if is_cut and t.shape.rank and t.shape[0] == rows else REPLICATED
            for t in tensors
        ]
        inputs = [Input(_shape(t), p) for t, p in zip(tensors, placements, strict=True)]
        replicas = Replicas(0, self.replicas, self.replicas) if is_cut else Replicas(0, 1, 1)
        self.exchange = OneProcess()
        return build(traced, inputs, replicas, max(rows, 1), lambda _: self.exchange), placements


def build_metrics(model: keras.Model, *batch: Any) -> None:
    """Make the variables of a model's metrics: a step that does so is traced twice.

    Args:
        model: Built and compiled.
        batch: Samples, targets and sample weights, of which shapes and dtypes count alone.
    """
    with tf.init_scope():
        model._symbolic_build(data_batch=batch)


def in_replicas(model: keras.Model, replicas: int) -> dict[str, KerasSteps]:
    """Let a model's steps run in replicas."""
    steps = {kind: KerasSteps(model, kind, replicas) for kind in LOOPS}

    def make(kind: str) -> Any:
        def make_function(self: Any, force: bool = False) -> Any:
            name = f"{kind}_function"
            if force or getattr(self, name) is None:
                steps[kind].traces.clear()
                steps[kind].built.clear()
            setattr(self, name, steps[kind])
            return steps[kind]

        return make_function

    for kind in LOOPS:
        method = types.MethodType(make(kind), model)
        object.__setattr__(model, f"make_{kind}_function", method)
    return steps


def _any_rows(spec: Any) -> Any:
    if not isinstance(spec, tf.TensorSpec) or not spec.shape.rank:
        return spec
    return tf.TensorSpec([None, *spec.shape[1:]], spec.dtype)


def _shape(tensor: Any) -> Any:
    return None if tensor.shape.rank is None else tuple(tensor.shape.as_list())


def _local(given: Sequence[Any], placements: Sequence[Any], replicas: int) -> list[Any]:
    local = []
    for tensor, placement in zip(
        tf.nest.flatten(given, expand_composites=True), placements, strict=True
    ):
        tensor = tf.convert_to_tensor(tensor)
        local += (
            [tensor[v::replicas] for v in range(replicas)] if placement == Sharded(0) else [tensor]
        )
    return local
