"""Runs that leave a timeline."""

from __future__ import annotations

import logging
import os
import signal
from typing import Any

import keras
import tensorflow as tf

import tnt_keras

NUM_LAYERS = 12  # of 256 KiB each, far above the fusion threshold
NUM_STEPS = 5


def _model() -> Any:
    layers = [keras.layers.Dense(256, "relu", use_bias=False) for _ in range(NUM_LAYERS)]
    model = tnt_keras.Model(keras.Sequential([keras.Input((256,)), *layers]))
    model.compile("sgd", "mse")
    return model


def _data(num_batches: int) -> Any:
    sample = (tf.ones([256]), tf.ones([256]))
    return tf.data.Dataset.from_tensors(sample).repeat(num_batches * 2048).batch(2048)


def train_evaluate_predict() -> list[str]:
    """Trains a deep model, one epoch, validates and predicts; returns what was logged at INFO."""
    assert tf.config.threading.get_inter_op_parallelism_threads() == 1
    messages: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.levelno == logging.INFO:
                messages.append(record.getMessage())

    logging.getLogger("tnt_keras").addHandler(Collect())
    model = _model()
    model.fit(_data(NUM_STEPS), validation_data=_data(2), verbose=0)
    model.predict(tf.ones([4, 256]), batch_size=2, verbose=0)
    return messages


def die_in_a_step() -> None:
    """Trains until rank 1 is killed after its third step."""

    class DieAfterThird(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if batch == 2 and tnt_keras.get_rank() == 1:
                os.kill(os.getpid(), signal.SIGKILL)

    _model().fit(_data(NUM_STEPS), verbose=0, callbacks=[DieAfterThird()])
