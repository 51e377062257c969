"""Creating all variables of a model before its first step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tnt_keras.step import Building, step_scope


def build_by_tracing(step_function: Callable[[Any], Any], element_spec: Any) -> None:
    """Creates the variables that a step creates when it is traced for the first time. Local.

    Keras makes weights of unbuilt models, metrics and optimizer states while it traces the first
    step. For a distributed model they must exist before: weights are broadcast first, and a step
    that is being traced must know all metrics. The step is therefore traced once for an element of
    the data, and the trace is thrown away; nothing is computed, so no random state advances.

    Args:
        step_function: The user's `train_step`, `test_step` or `predict_step`.
        element_spec: `tf.TypeSpec`s of what the step receives.
    """
    with step_scope(Building()):
        traced = tf.function(step_function, autograph=False)
        traced.get_concrete_function(element_spec)
