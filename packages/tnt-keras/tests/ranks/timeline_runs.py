"""Runs that leave a timeline."""

from __future__ import annotations

import logging
import os
import signal
import time
from typing import Any

import keras
import tensorflow as tf

import tnt_comm
import tnt_keras
from tnt_keras.partition import local_region

NUM_LAYERS = 12  # of 256 KiB each, far above the fusion threshold
NUM_EARLY = NUM_LAYERS - 1  # buckets that must be reduced before the last gradient exists
NUM_STEPS = 5


class WaitForSums(keras.callbacks.Callback):
    """Holds backpropagation before its last layer until `NUM_EARLY` buckets are reduced.

    That they are is a matter of order, not of speed: without overlap no bucket is reduced before
    the last gradient exists, and the wait ends with an error.
    """

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.before = tnt_comm.counters()

    def wait(self, gradient: Any) -> Any:
        limit = time.monotonic() + 60
        while True:
            earlier = tnt_comm.counters() - self.before
            time.sleep(0.02)
            later = tnt_comm.counters() - self.before
            # Nothing is under way while this time stands still.
            is_idle = later.communication_s == earlier.communication_s
            if earlier.num_operations >= NUM_EARLY and is_idle:
                return gradient
            if time.monotonic() > limit:
                raise RuntimeError(f"{NUM_EARLY} buckets should be reduced by now: {later}")

    def layer(self) -> keras.layers.Layer:
        @local_region  # each rank waits by itself; elsewhere Python code runs on rank 0
        def held(upstream: tf.Tensor) -> tf.Tensor:
            with tf.control_dependencies([tf.numpy_function(self.wait, [upstream], tf.float32)]):
                return tf.identity(upstream)

        @tf.custom_gradient
        def hold(x: tf.Tensor) -> Any:
            return tf.identity(x), held

        return keras.layers.Lambda(hold)


def deep_model(*held: keras.layers.Layer, optimizer: Any = "sgd") -> Any:
    """A compiled model of equal layers; those of `held` come before the second one."""
    first, *others = [keras.layers.Dense(256, "relu", use_bias=False) for _ in range(NUM_LAYERS)]
    model = tnt_keras.Model(keras.Sequential([keras.Input((256,)), first, *held, *others]))
    model.compile(optimizer, "mse")
    return model


def batches(num_batches: int) -> Any:
    """Batches for that model."""
    sample = (tf.ones([256]), tf.ones([256]))
    return tf.data.Dataset.from_tensors(sample).repeat(num_batches * 64).batch(64)


def train_evaluate_predict() -> list[str]:
    """Trains a deep model, one epoch, validates and predicts; returns what was logged at INFO."""
    # One for the layer that holds, the other for what is left to do.
    assert os.environ["TF_NUM_INTEROP_THREADS"] == "2"
    messages: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.levelno == logging.INFO:
                messages.append(record.getMessage())

    logging.getLogger("tnt_keras").addHandler(Collect())
    held = WaitForSums()
    model = deep_model(held.layer())
    model.fit(batches(NUM_STEPS), validation_data=batches(2), verbose=0, callbacks=[held])
    model.predict(tf.ones([4, 256]), batch_size=2, verbose=0)
    return messages


def die_in_a_step() -> None:
    """Trains until rank 1 is killed after its third step."""

    class DieAfterThird(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if batch == 2 and tnt_keras.get_rank() == 1:
                os.kill(os.getpid(), signal.SIGKILL)

    deep_model().fit(batches(NUM_STEPS), verbose=0, callbacks=[DieAfterThird()])
