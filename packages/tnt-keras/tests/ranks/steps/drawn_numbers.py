"""Steps that draw noise for their samples and noise on gradients; numpy values."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from classifiers import samples

import tnt_keras

NUM_ROWS = 20
"""As many for each of two ranks as the kernel has rows."""


class NoisyGradients(keras.Model):
    """One dense layer; what it draws for its samples has no effect, that on gradients has.

    Args:
        num_units: Of the layer.
        generator: Of the numbers for samples, if there are any.
        noise: Returns the noise for a shape, by default from the generator.
    """

    def __init__(
        self, num_units: int, generator: Any = None, noise: Callable[[Any], Any] | None = None
    ) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(num_units, kernel_initializer="zeros")
        self.generator = generator
        self.noise = noise or generator.normal

    def call(self, inputs: Any) -> Any:
        return self.dense(inputs)

    def train_step(self, data: Any) -> Any:
        if self.generator is not None:
            data += 0.0 * self.generator.normal(tf.shape(data))
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(self(data, training=True) ** 2)
        gradients = tape.gradient(loss, self.trainable_variables)
        noisy = [gradient + self.noise(gradient.shape) for gradient in gradients]
        self.optimizer.apply(noisy, self.trainable_variables)
        return {"loss": loss}


def with_a_generator(distributed: bool, run_eagerly: bool) -> dict[str, Any]:
    """Two epochs; the last batch of each has fewer samples than ranks."""
    keras.utils.set_random_seed(1)
    model: Any = NoisyGradients(3, tf.random.Generator.from_seed(5))
    if distributed:
        model = tnt_keras.Model(model)
    model.compile(keras.optimizers.SGD(0.1), run_eagerly=run_eagerly)
    history = model.fit(samples(21)[0], batch_size=5, shuffle=False, epochs=2, verbose=0)
    state = np.asarray(model.generator.state, np.float64)
    return {"weights": [*model.get_weights(), state], "history": history.history}


NOISES: dict[str, Callable[[], tuple[Any, Any]]] = {
    "tf.random": lambda: (None, tf.random.normal),
    "keras.random": lambda: (None, keras.random.normal),
    "generator": lambda: (tf.random.Generator.from_non_deterministic_state(), None),
    "global generator": lambda: (
        None,
        lambda shape: tf.random.get_global_generator().normal(shape),
    ),
}


def noise_without_a_seed(kind: str, run_eagerly: bool) -> np.ndarray:
    """The change of a kernel by one step with noise alone, where ranks have no seed in common."""
    keras.utils.set_random_seed(int.from_bytes(os.urandom(3), "big"))
    tf.random.set_seed(None)
    tf.random.set_global_generator(tf.random.Generator.from_non_deterministic_state())
    model = tnt_keras.Model(NoisyGradients(400, *NOISES[kind]()))
    model.compile(keras.optimizers.SGD(1.0), run_eagerly=run_eagerly)
    x = samples(NUM_ROWS)[0]
    model.fit(x, batch_size=len(x), verbose=0)
    return np.asarray(model.dense.kernel)


def trained_with_dropout(distributed: bool, draws: str = "serial") -> dict[str, Any]:
    """Weights and losses of a network with dropout, and what is said of its training step."""
    keras.utils.set_random_seed(1)
    layers = [keras.Input((10,)), keras.layers.Dropout(0.5), keras.layers.Dense(3, "softmax")]
    model = keras.Sequential(layers)
    if distributed:
        model = tnt_keras.Model(model, draws=draws)
    model.compile("sgd", "sparse_categorical_crossentropy")
    x, y = samples(21)
    losses = model.fit(x, y, batch_size=5, epochs=2, shuffle=False, verbose=0).history["loss"]
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        if distributed:
            tnt_keras.explain(model)
    return {
        "weights": model.get_weights(),
        "history": losses,
        "line": printed.getvalue().split("\n")[0],
    }
