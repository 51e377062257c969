"""Tell which components of samples are seen by other code than that of Keras."""

from __future__ import annotations

import dataclasses
from typing import Any

import keras

from tnt_keras.keras_hooks.class_swap import has_keras_methods, plain_class
from tnt_keras.keras_hooks.private import all_layers
from tnt_keras.step.metrics import all_metrics

_METHODS = ("train_step", "test_step", "compute_loss", "compute_metrics")


@dataclasses.dataclass(frozen=True)
class UsersCode:
    """What a user's own code sees of samples; layers, losses and metrics of Keras are known.

    Attributes:
        sees_inputs: Whether some layer is the user's own, or the step.
        sees_labels: Whether a loss or metric is, or the step.
    """

    sees_inputs: bool = True
    sees_labels: bool = True

    @classmethod
    def of_step(cls, model: keras.Model, step_name: str) -> UsersCode:
        """Look for the user's code in a step. Local.

        Args:
            model: A built distributed model.
            step_name: "train_step", "test_step" or "predict_step".
        """
        if step_name == "predict_step":
            return cls(sees_inputs=True, sees_labels=False)
        sees_labels = not _are_labels_of_keras(model)
        return cls(
            sees_inputs=sees_labels or not _are_layers_of_keras(model), sees_labels=sees_labels
        )


EVERYWHERE = UsersCode()


def _are_labels_of_keras(model: keras.Model) -> bool:
    """Return whether labels go to losses and metrics of Keras alone, in its own steps.

    Without a compiled loss labels go elsewhere, such as to a layer that adds a loss.
    """
    if not has_keras_methods(model, *_METHODS):
        return False
    losses = [each for each in keras.tree.flatten(getattr(model, "loss", None)) if each is not None]
    return bool(losses) and all(map(_is_of_keras, [*losses, *all_metrics(model)]))


def _are_layers_of_keras(model: keras.Model) -> bool:
    """Return whether a model is made of layers of Keras, without operations between them."""
    layers = all_layers(model)
    operations = [each for layer in layers for each in getattr(layer, "operations", [])]
    own = [layer for layer in layers if layer is not model]
    return (
        plain_class(type(model)).__module__.startswith("keras.")
        and all(isinstance(operation, keras.Layer) for operation in operations)
        and all(map(_is_of_keras, own))
    )


def _is_of_keras(used: Any) -> bool:
    """Return whether an object or function, and each function that it holds, is Keras' own."""
    if isinstance(used, str):
        return True
    if not isinstance(used, (keras.Layer, keras.losses.Loss, keras.metrics.Metric)):
        return str(getattr(used, "__module__", "")).startswith("keras.")
    held = [value for value in vars(used).values() if callable(value)]
    held = [value for value in held if not isinstance(value, keras.Layer)]  # looked at by itself
    is_own = type(used).__module__.startswith("keras.")
    return is_own and all(map(_is_of_keras, [*held, *getattr(used, "metrics", [])]))
