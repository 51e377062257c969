"""Models with batch normalisation; each run returns numpy values."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from classifiers import build_optimizer

import tnt_keras

NUM_SAMPLES = 21
BATCH_SIZE = 5
"""Not even for 2 or 3 ranks, and the last batch has a single sample."""

LAYER = keras.layers


def _images() -> tuple[Any, Any]:
    inputs = keras.Input((6, 6, 2))
    x = LAYER.Conv2D(4, 3, use_bias=False)(inputs)
    x = keras.ops.relu(LAYER.BatchNormalization(momentum=0.8, synchronized=True)(x))
    x = LAYER.BatchNormalization(synchronized=True, trainable=False)(x)
    return inputs, LAYER.GlobalAveragePooling2D()(x)


def _masked_texts() -> tuple[Any, Any]:
    inputs = keras.Input((6,))
    x = LAYER.Embedding(9, 5, mask_zero=True)(inputs)
    x = LAYER.BatchNormalization(momentum=0.8, synchronized=True)(x)
    return inputs, LAYER.GlobalAveragePooling1D()(LAYER.Dense(4, activation="tanh")(x))


def _local() -> tuple[Any, Any]:
    """Statistics of each rank's samples, at which the serial run does not look."""
    inputs = keras.Input((6, 6, 2))
    x = LAYER.Conv2D(4, 3, use_bias=False)(inputs)
    x = keras.ops.relu(LAYER.BatchNormalization(momentum=0.8)(x))
    return inputs, LAYER.GlobalAveragePooling2D()(x)


SYNCHRONIZED = {
    "images": _images,
    "masked texts": _masked_texts,
}
_MODELS = {**SYNCHRONIZED, "local": _local}


def samples(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and labels."""
    rng = np.random.default_rng(5)
    labels = rng.integers(0, 3, NUM_SAMPLES)
    if name == "masked texts":
        words = rng.integers(1, 9, (NUM_SAMPLES, 6))
        words[np.arange(6) >= rng.integers(1, 7, NUM_SAMPLES)[:, None]] = 0
        return words.astype("float32"), labels
    shape = (6,) if name == "features" else (6, 6, 2)
    return rng.normal(0.5, 1.0, (NUM_SAMPLES, *shape)).astype("float32"), labels


def trained(
    distributed: bool, name: str, fused: bool | None = None, **arguments: Any
) -> dict[str, Any]:
    """Weights, moving statistics among them, losses, and what is predicted."""
    keras.utils.set_random_seed(3)
    inputs, x = _MODELS[name]()
    model = keras.Model(inputs, LAYER.Dense(3, activation="softmax")(x))
    if distributed:
        model = tnt_keras.Model(model, fused_batch_norm=fused)
    optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"], **arguments)
    build_optimizer(model)
    x, y = samples(name)
    history = model.fit(
        x, y, BATCH_SIZE, 3, validation_data=(x[:10], y[:10]), shuffle=False, verbose=0
    )
    return {
        "weights": [np.asarray(weight) for weight in model.get_weights()],
        "history": history.history,
        "predict": model.predict(x[:10], BATCH_SIZE, verbose=0),
    }


def with_penalised_gradients(distributed: bool) -> dict[str, Any]:
    """Trains on second derivatives through statistics of all ranks; returns weights and losses."""
    import tensorflow as tf

    class Penalised(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.norm = LAYER.BatchNormalization(synchronized=True)
            self.dense = LAYER.Dense(1)

        def call(self, inputs: Any, training: bool = False) -> Any:
            return self.dense(self.norm(inputs, training=training))

        def train_step(self, data: Any) -> Any:
            x, _ = data
            with tf.GradientTape() as tape:
                with tf.GradientTape() as inner:
                    inner.watch(x)
                    total = tf.reduce_sum(self(x, training=True) ** 2)
                loss = tf.reduce_mean(inner.gradient(total, x) ** 2)
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply(gradients, self.trainable_variables)
            return {"loss": loss}

    keras.utils.set_random_seed(3)
    model = Penalised()
    x, y = samples("features")
    model(x[:1])
    if distributed:
        model = tnt_keras.Model(model)
    model.compile("sgd")
    history = model.fit(x, y, BATCH_SIZE, shuffle=False, verbose=0).history
    return {"weights": model.get_weights(), "loss": history["loss"]}
