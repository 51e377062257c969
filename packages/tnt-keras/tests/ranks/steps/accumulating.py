"""Trainings with gradient accumulation; each returns plain values."""

from __future__ import annotations

import copy
import logging
import pathlib
from typing import Any

import keras
import numpy as np
import tensorflow as tf
import timeline_runs
from classifiers import compiled, samples, weights_of
from logged import logged

import tnt_comm
import tnt_keras

NUM_SAMPLES = 41
"""Batches of 5 are not even for 2 or 3 ranks, and the last one, the ninth, has a single sample."""

VOCABULARY = 11


def _state_of(model: Any) -> dict[str, Any]:
    return {
        "weights": [np.asarray(weight) for weight in model.get_weights()],
        "optimizer": [np.asarray(variable) for variable in model.optimizer.variables],
    }


def _embedding(distributed: bool, num_steps: int, **compile_arguments: Any) -> Any:
    """A model whose batches repeat words, and leave some out."""
    keras.utils.set_random_seed(11)
    layers = [keras.layers.Embedding(VOCABULARY, 4), keras.layers.Flatten()]
    penalty = keras.regularizers.L2(0.1)
    head = keras.layers.Dense(
        3, "softmax", kernel_constraint="max_norm", kernel_regularizer=penalty
    )
    model = keras.Sequential([keras.Input((10,), dtype="int32"), *layers, head])
    optimizer = keras.optimizers.AdamW(
        1e-2,
        epsilon=1e-2,  # else the first steps have its size, however small and rounded a gradient is
        global_clipnorm=0.5,
        use_ema=True,
        ema_momentum=0.9,
        ema_overwrite_frequency=2,
        gradient_accumulation_steps=num_steps,
    )
    arguments = {
        "optimizer": optimizer,
        "loss": "sparse_categorical_crossentropy",
        "weighted_metrics": ["accuracy"],
        **compile_arguments,
    }
    return compiled(model, distributed, arguments)


def _data() -> tf.data.Dataset:
    x, y = samples(NUM_SAMPLES)
    words = (np.abs(x) * 4).astype("int32") % VOCABULARY
    return tf.data.Dataset.from_tensor_slices((words, y, weights_of(NUM_SAMPLES))).batch(5)


def train(distributed: bool, num_steps: int, compile_arguments: dict[str, Any]) -> dict[str, Any]:
    """Trains epochs of 9 steps, so that updates reach from one into the next."""
    model = _embedding(distributed, num_steps, **compile_arguments)
    history = model.fit(_data(), epochs=3, verbose=0)
    return {"history": history.history, **_state_of(model)}


class InTurns(keras.Model):
    """Trains its two layers by two calls of one optimizer in a step, which count as two."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = keras.layers.Dense(4, "tanh"), keras.layers.Dense(3, "softmax")

    def call(self, x: Any) -> Any:
        return self.second(self.first(tf.cast(x, "float32") / VOCABULARY))

    def train_step(self, data: Any) -> Any:
        x, y, _ = data
        for layer in (self.first, self.second):
            with tf.GradientTape() as tape:
                loss = self.compute_loss(x, y, self(x, training=True))
            gradients = tape.gradient(loss, layer.trainable_variables)
            self.optimizer.apply(gradients, layer.trainable_variables)
        return {"loss": loss}


def train_in_turns(distributed: bool, eager: bool) -> dict[str, Any]:
    """Each third call is an update, in turns of the one layer and of the other."""
    keras.utils.set_random_seed(11)
    model = InTurns()
    model(np.zeros((1, 10), "int32"))
    optimizer = keras.optimizers.SGD(0.1, gradient_accumulation_steps=3)
    optimizer.build(model.trainable_variables)
    arguments = {"optimizer": optimizer, "loss": "sparse_categorical_crossentropy"}
    model = compiled(model, distributed, {**arguments, "run_eagerly": eager})
    model.fit(_data(), epochs=2, verbose=0)
    return _state_of(model)


def train_with_two_stops(distributed: bool, folder: pathlib.Path, is_read: bool) -> dict[str, Any]:
    """Trains 6 steps, 3 for an update, by 4 and 2; between them the model is written, or was read.

    Returns:
        Its state when it was written and at the end.
    """
    path = folder / "between.keras"
    batches = list(_data().take(6))
    model = _embedding(distributed, num_steps=3)
    if is_read:
        load = tnt_keras.models.load_model if distributed else keras.models.load_model
        model = load(path)
    else:
        _train_on(model, batches[:4])
        if distributed:
            model.save_weights(folder / "between.weights.h5")  # the same state, settled once
            model.save(path)
    between = _state_of(model)
    _train_on(model, batches[4:])
    return {**_state_of(model), "between": between["optimizer"]}


def train_a_copy(distributed: bool) -> dict[str, Any]:
    """Trains 4 steps, 3 for an update, and a copy two more."""
    batches = list(_data().take(6))
    model = _embedding(distributed, num_steps=3)
    _train_on(model, batches[:4])
    copied = copy.deepcopy(model)
    copied = tnt_keras.Model(copied) if distributed else copied
    _train_on(copied, batches[4:])
    return _state_of(copied)


def _train_on(model: Any, batches: list[Any]) -> None:
    for x, y, weights in batches:
        model.train_on_batch(x, y, sample_weight=weights)


def bytes_of_steps(num_steps: int) -> tuple[list[int], int]:
    """Trains one epoch; returns the bytes that each step communicates, and those of the weights.

    Before the first layer's gradient, the last one, the others are held until they are reduced:
    that they are is what `timeline_runs.WaitForSums` raises about.
    """
    counted: list[int] = []

    class Count(timeline_runs.WaitForSums):
        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            super().on_train_batch_begin(batch, logs)
            self.is_update = (batch + 1) % num_steps == 0

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            counted.append((tnt_comm.counters() - self.before).num_bytes)

        def wait(self, gradient: Any) -> Any:
            return super().wait(gradient) if self.is_update else gradient

    count = Count()
    optimizer = keras.optimizers.SGD(0.1, gradient_accumulation_steps=num_steps)
    model = timeline_runs.deep_model(count.layer(), optimizer=optimizer)
    model.fit(timeline_runs.batches(2 * num_steps + 1), verbose=0, callbacks=[count])
    return counted, sum(weight.nbytes for weight in model.get_weights())


def told_of_a_penalty() -> list[str]:
    """Trains a model with a penalty; returns what is told of steps, the first without an update."""
    with logged(logging.INFO) as messages:
        train(True, 3, {})
    return [message for message in messages if message.startswith("train_step on")]


def warnings_of_a_file_of_one_rank(folder: pathlib.Path) -> list[str]:
    """Writes the model from a callback of the master, at the end of a step and of the epoch."""

    class Save(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if batch == 0:
                self.model.save(folder / "in_epoch.keras")

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            messages.append("end of epoch")
            self.model.save(folder / "after_epoch.keras")

    with logged() as messages:
        model = _embedding(True, num_steps=2)
        callback = tnt_keras.callbacks.Callback(Save(), run_on_all_ranks=False)
        model.fit(_data(), verbose=0, callbacks=[callback])
    return messages
