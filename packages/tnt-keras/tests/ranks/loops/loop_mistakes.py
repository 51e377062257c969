"""What is said to loops that cannot be right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from loop_parts import (
    BATCH_SIZE,
    batches,
    classifier,
    images,
)

import tnt_keras


def _error(function: Callable[[], Any]) -> str:
    try:
        function()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def mistakes() -> dict[str, str]:
    """What is said to calls that cannot be right."""
    model = classifier()
    optimizer = keras.optimizers.SGD(0.1)
    x, y = images()
    x, y = x[:BATCH_SIZE], y[:BATCH_SIZE]

    @tnt_keras.function
    def train_step(x: Any, y: Any = None, quotient: bool = False) -> Any:
        with tf.GradientTape() as tape:
            errors = tf.reduce_sum(tf.square(model(x)), axis=1)
            loss = tf.reduce_mean(errors)
            if quotient:
                mask = tf.cast(y > 0, tf.float32)
                loss = tf.reduce_sum(errors * mask) / tf.reduce_sum(mask)
        gradients = tape.gradient(loss, model.trainable_weights)
        optimizer.apply(gradients, model.trainable_weights)
        return loss

    dataset = tnt_keras.data.distribute(tf.data.Dataset.from_tensor_slices(x).batch(6))
    parts = next(iter(dataset))
    rank = tnt_keras.get_rank()
    found = {
        "changed part": _error(lambda: train_step(parts, 2.0 * parts)),
        "other batches": _error(lambda: train_step(x + rank)),
        "other scalars": _error(lambda: train_step(x, tf.constant(rank))),
        "other constants": _error(lambda: train_step(x, y, quotient=rank == 1)),
        "inside of a graph": _error(lambda: tf.function(lambda: train_step(x))()),
        "loop inside of a graph": _error(lambda: tf.function(lambda: list(dataset))()),
        "dataset": _error(lambda: tnt_keras.data.distribute([x])),
    }
    found["right"] = _error(lambda: train_step(x))
    return found


def changed_by_one_rank() -> list[str]:
    """What is said when rank 0 changes weights, and rank 1 a learning rate, between steps."""
    model = classifier()
    optimizer = keras.optimizers.SGD(0.1)
    x, y = images()

    @tnt_keras.function
    def train_step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(y, model(x)))
        optimizer.apply(tape.gradient(loss, model.trainable_weights), model.trainable_weights)
        return loss

    def steps(step: Callable[..., Any]) -> Callable[[], None]:
        return lambda: [step(x, y) for _ in range(3)] and None

    compiled = tnt_keras.Model(classifier())
    compiled.compile("sgd", "sparse_categorical_crossentropy")
    steps(train_step)()
    steps(compiled.train_on_batch)()
    if tnt_keras.is_master_rank():
        model.set_weights([weight + 1 for weight in model.get_weights()])
    else:
        compiled.optimizer.learning_rate = 0.5
    return [_error(steps(train_step)), _error(steps(compiled.train_on_batch))]


def loop_without_function() -> list[str]:
    """The step is in the loop itself, over the parts of this rank; then over all samples."""
    model = classifier()

    def loop(data: Any) -> None:
        optimizer = keras.optimizers.SGD(0.1)
        for x, _ in data:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(model(x))
            gradients = tape.gradient(loss, model.trainable_weights)
            optimizer.apply(gradients, model.trainable_weights)

    return [_error(lambda: loop(batches(True))), _error(lambda: loop(batches(False)))]
