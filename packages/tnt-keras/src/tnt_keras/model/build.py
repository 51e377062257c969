"""Create all variables of a model before its first step."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tnt_keras.keras_hooks.class_swap import has_keras_methods
from tnt_keras.keras_hooks.private import all_layers
from tnt_keras.keras_hooks.private_tensorflow import replaced_random_operations
from tnt_keras.probe.runs.python_state import PythonState
from tnt_keras.probe.runs.variable_reads import VariableReads
from tnt_keras.step.assignments.skipped_assignments import skipped_assignments
from tnt_keras.step.context import Building, step_scope


def build_by_tracing(model: keras.Model, step_name: str, element_spec: Any) -> list[Any]:
    """Create the variables that a step creates when it is traced for the first time. Local.

    Keras makes weights of unbuilt models, metrics and optimizer states while it traces the first
    step. For a distributed model they must exist before: weights are broadcast first, and a step
    that is being traced must know all metrics. The step is therefore traced once for an element of
    the data, and the trace is thrown away; nothing is computed, so no random state advances, and
    what the step counts in Python is put back. A step that shall run eagerly, and may need values,
    is run on made-up samples of ones (zeros for integers) instead, and only traced if that fails:
    variables that are made in a trace which fails have no values.

    Args:
        model: Any model.
        step_name: "train_step", "test_step" or "predict_step".
        element_spec: `tf.TypeSpec`s of what the step receives.

    Returns:
        The variables that the step was seen to read.
    """
    if step_name == "train_step" and has_keras_methods(model, "train_step", "test_step"):
        # It creates the same variables and is traced in a fraction of the time. (The optimizer
        # makes its own when it is first used; they are equal on all ranks.)
        step_name = "test_step"
    # Layers that are not built yet may note sizes now.
    python_state = PythonState([model, *(layer for layer in all_layers(model) if layer.built)])
    reads = VariableReads()
    with step_scope(Building()), reads.watching(lambda: True):
        step = getattr(model, step_name)
        try:
            if model.run_eagerly:
                _run_or_trace(step, element_spec)
            else:
                _trace(step, element_spec)
        finally:
            python_state.restore()
    return reads.variables


def _run_or_trace(step: Callable[[Any], Any], element_spec: Any) -> None:
    """Run a step once, so that it changes no variable, or trace it if that fails.

    Nor does a `tf.random.Generator` advance: the first step draws what it does with plain Keras.
    """
    try:
        with skipped_assignments(), replaced_random_operations(_without_advancing):
            step(tf.nest.map_structure(_made_up, element_spec))
    except Exception as error:  # whatever a user's step raises for samples that it does not expect
        try:
            _trace(step, element_spec)
        except Exception as error_of_trace:  # of a step that needs values, or fails in any case
            raise error from error_of_trace


def _trace(step: Callable[[Any], Any], element_spec: Any) -> None:
    tf.function(_once(step), autograph=False).get_concrete_function(element_spec)


def _without_advancing(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    """Return what takes the place of a random operation: generators are read, but not advanced."""

    def read(resource: Any, alg: Any, delta: Any, name: Any = None) -> tf.Tensor:
        return plain(resource, alg, tf.zeros_like(delta), name)

    def zeros(*args: Any, **kwargs: Any) -> tf.Tensor:
        given = inspect.signature(plain).bind(*args, **kwargs).arguments
        return tf.zeros(given["shape"], given.get("dtype", tf.int64))

    return {"rng_read_and_skip": read, "stateful_random_binomial": zeros}.get(name, plain)


def _once(step: Callable[[Any], Any]) -> Callable[[Any], None]:
    """Return a function that runs a step only the first time that it is traced.

    TensorFlow traces a function again that has created variables; nobody needs that graph here.
    """
    remaining = [step]

    def first_trace(element: Any) -> None:
        if remaining:
            remaining.pop()(element)

    return first_trace


def _made_up(spec: Any) -> Any:
    """Return an arbitrary value that fits a spec; dimensions that are not known are 2."""
    if spec is None:
        return None
    dense = tf.ones([2 if size is None else size for size in spec.shape], tf.float32)
    if spec.dtype == tf.string:
        return tf.strings.substr(tf.strings.as_string(dense), 0, 0)
    value = tf.cast(dense if spec.dtype.is_floating else 0.0 * dense, spec.dtype)
    if isinstance(spec, tf.SparseTensorSpec):
        return tf.sparse.from_dense(value)
    if isinstance(spec, tf.RaggedTensorSpec):
        return tf.RaggedTensor.from_tensor(value, ragged_rank=spec.ragged_rank)
    return value
