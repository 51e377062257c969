"""The one place that uses what Keras does not document.

- The mask of a tensor: Keras hands the mask of a layer's or loss' output on as an attribute of the
  tensor, and there is no public way to read it.
- The layers of a model at any depth: `model.layers` lists one level only, and not those that a
  layer keeps for itself.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf


def mask_of(tensor: tf.Tensor) -> tf.Tensor | None:
    """Returns the mask that Keras attached to `tensor`, None if there is none.

    Args:
        tensor: Output of a layer, a model or a loss' `call`.
    """
    return getattr(tensor, "_keras_mask", None)


def all_layers(model: keras.Model) -> list[Any]:
    """Returns the model and all layers below it, each once.

    Args:
        model: Any model.
    """
    return list(model._flatten_layers())
