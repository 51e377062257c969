"""Create all variables of a model before its first step."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tnt_keras.keras_hooks.class_swap import plain_class
from tnt_keras.step.context import Building, step_scope


def build_by_tracing(model: keras.Model, step_name: str, element_spec: Any) -> None:
    """Create the variables that a step creates when it is traced for the first time. Local.

    Keras makes weights of unbuilt models, metrics and optimizer states while it traces the first
    step. For a distributed model they must exist before: weights are broadcast first, and a step
    that is being traced must know all metrics. The step is therefore traced once for an element of
    the data, and the trace is thrown away; nothing is computed, so no random state advances.

    Args:
        model: Any model.
        step_name: "train_step", "test_step" or "predict_step".
        element_spec: `tf.TypeSpec`s of what the step receives.
    """
    if step_name == "train_step" and _has_keras_steps(model):
        # It creates the same variables and is traced in a fraction of the time. (The optimizer
        # makes its own when it is first used; they are equal on all ranks.)
        step_name = "test_step"
    with step_scope(Building()):
        traced = tf.function(getattr(model, step_name), autograph=False)
        traced.get_concrete_function(element_spec)


def _has_keras_steps(model: keras.Model) -> bool:
    cls = plain_class(type(model))
    return all(
        getattr(cls, name) is getattr(keras.Model, name) for name in ("train_step", "test_step")
    )
