"""Runs with options of optimizers, and ways to execute steps."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from classifiers import classifier, results_of, samples


def execution(distributed: bool, **compile_arguments: Any) -> dict[str, Any]:
    """Ways to execute steps: eagerly, several at once, with optimizer features."""
    optimizer = keras.optimizers.AdamW(
        1e-2, global_clipnorm=0.5, use_ema=True, ema_momentum=0.9, ema_overwrite_frequency=2
    )
    model = classifier(distributed, optimizer=optimizer, **compile_arguments)
    data = tf.data.Dataset.from_tensor_slices(samples()).batch(5)
    results = results_of(model, model.fit(data, epochs=3, verbose=0))
    return results | {"predict": model.predict(data, verbose=0)}


def accumulation(distributed: bool) -> dict[str, Any]:
    """Gradient accumulation over 3 steps."""
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9, gradient_accumulation_steps=3)
    model = classifier(distributed, optimizer=optimizer)
    data = tf.data.Dataset.from_tensor_slices(samples()).batch(4)
    return results_of(model, model.fit(data, epochs=3, verbose=0))


def loss_scaling(distributed: bool) -> dict[str, Any]:
    """Mixed precision with float16, whose optimizer is wrapped in a LossScaleOptimizer."""
    keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        model = classifier(distributed)
        data = tf.data.Dataset.from_tensor_slices(samples()).batch(5)
        results = results_of(model, model.fit(data, epochs=2, verbose=0))
        assert type(model.optimizer).__name__ == "LossScaleOptimizer"
        return results
    finally:
        keras.mixed_precision.set_global_policy("float32")
