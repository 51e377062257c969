"""Create all variables of a model before its first step, in order to restore them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tnt_keras.keras_hooks.class_swap import has_keras_methods
from tnt_keras.keras_hooks.private import all_layers
from tnt_keras.model.python_state import PythonState
from tnt_keras.step.context import step_scope


def build_by_tracing(model: keras.Model, step_name: str, element_spec: Any) -> None:
    """Create the variables that a step creates when it is traced for the first time. Local.

    Keras makes weights of unbuilt models, metrics and optimizer states while it traces the first
    step. What restores them from a backup needs them before. The step is therefore traced once for
    an element of the data, and the trace is thrown away; nothing is computed, so no random state
    advances, and what the step counts in Python is put back.

    Args:
        model: A distributed model.
        step_name: "train_step", "test_step" or "predict_step".
        element_spec: `tf.TypeSpec`s of what the step receives.
    """
    if step_name == "train_step" and has_keras_methods(model, "train_step", "test_step"):
        # It creates the same variables and is traced in a fraction of the time. (The optimizer
        # makes its own when it is first used; they are equal on all ranks.)
        step_name = "test_step"
    # Layers that are not built yet may note sizes now.
    python_state = PythonState([model, *(layer for layer in all_layers(model) if layer.built)])
    step = getattr(model, step_name)
    try:
        with step_scope(model._tnt_owner):
            tf.function(_once(step), autograph=False).get_concrete_function(element_spec)
    finally:
        python_state.restore()


def _once(step: Callable[[Any], Any]) -> Callable[[Any], None]:
    """Return a function that runs a step only the first time that it is traced.

    TensorFlow traces a function again that has created variables; nobody needs that graph here.
    """
    remaining = [step]

    def first_trace(element: Any) -> None:
        if remaining:
            remaining.pop()(element)

    return first_trace
