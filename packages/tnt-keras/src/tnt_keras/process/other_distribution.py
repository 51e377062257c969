"""Refuse what distributes or computes a model otherwise than TensorFlow on one device per rank."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf


def check_not_distributed_otherwise(model: Any) -> None:
    """Make sure that nothing else distributes a model. Local.

    Args:
        model: A Keras model that is to be distributed.

    Raises:
        RuntimeError: If Keras does not compute with TensorFlow, or a `tf.distribute.Strategy` is
            active or has made the model's variables.
    """
    backend = keras.config.backend()
    if backend != "tensorflow":
        raise RuntimeError(
            f"Keras computes with {backend}, and Tarantella distributes models on TensorFlow: set "
            "the environment variable KERAS_BACKEND=tensorflow."
        )
    variables = [variable.value for variable in model.variables]
    is_mirrored = any(isinstance(each, tf.distribute.DistributedValues) for each in variables)
    if tf.distribute.has_strategy() or is_mirrored:
        raise RuntimeError(
            f"The model {model.name!r} is under a `tf.distribute.Strategy`, which would distribute "
            "it a second time: leave the strategy and its scope out, and start the script with "
            "`tarantella -n 2 -- script.py`, one rank for each device."
        )
