"""Tell whether only code of Keras sees the labels of a step."""

from __future__ import annotations

from typing import Any

import keras

from tnt_keras.keras_hooks.class_swap import plain_class
from tnt_keras.step.metrics import all_metrics

_METHODS = ("train_step", "test_step", "compute_loss", "compute_metrics")


def are_labels_of_keras(model: keras.Model) -> bool:
    """Return whether labels go to losses and metrics of Keras alone, in its own steps. Local.

    These are known to treat each sample alone, whatever its label is. Without a compiled loss
    labels go elsewhere, such as to a layer that adds a loss.

    Args:
        model: A compiled model.
    """
    model_class = plain_class(type(model))
    if any(getattr(model_class, name) is not getattr(keras.Model, name) for name in _METHODS):
        return False
    losses = [each for each in keras.tree.flatten(getattr(model, "loss", None)) if each is not None]
    return bool(losses) and all(map(_is_of_keras, [*losses, *all_metrics(model)]))


def _is_of_keras(used: Any) -> bool:
    """Return whether a name, function, loss or metric, and all that it holds, is Keras' own."""
    if isinstance(used, str):
        return True
    if not isinstance(used, (keras.losses.Loss, keras.metrics.Metric)):
        return str(getattr(used, "__module__", "")).startswith("keras.")
    held = [value for value in vars(used).values() if callable(value)]
    is_own = type(used).__module__.startswith("keras.")
    return is_own and all(map(_is_of_keras, [*held, *getattr(used, "metrics", [])]))
