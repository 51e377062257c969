"""Trainings on batches of many numbers of rows; each run returns values and how much was built."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from classifiers import compiled

import tnt_keras as tnt
from tnt_keras.partition import PartitionError
from tnt_keras.step import traced_steps

NUMBERS = (8, 6, 9, 1, 12, 5, 2, 7, 20, 4)
LENGTHS = (4, 4, 4, 4, 6, 7, 4, 9, 5, 8)
WORDS = 11


def _batches(lengths: tuple[int, ...]) -> list[tuple[Any, Any, Any]]:
    """Tokens, classes and weights of samples."""
    batches = []
    for rows, length in zip(NUMBERS, lengths, strict=True):
        rng = np.random.default_rng([rows, length])
        tokens = rng.integers(1, WORDS, (rows, length)).astype("int32")
        weights = rng.uniform(0.5, 2, rows).astype("float32")
        batches.append((tokens, (tokens.sum(1) % 3).astype("int32"), weights))
    return batches


def _classifier(
    distributed: bool, num_accumulated: int | None = None, *, recurrent: bool = True
) -> Any:
    keras.utils.set_random_seed(3)
    model = keras.Sequential(
        [
            keras.Input((None,), dtype="int32"),
            keras.layers.Embedding(WORDS, 6),
            keras.layers.SimpleRNN(5, return_sequences=True)
            if recurrent
            else keras.layers.Dense(5),
            keras.layers.Dropout(0.2),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(3),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.Adam(0.01, gradient_accumulation_steps=num_accumulated)
    arguments = {"optimizer": optimizer, "loss": loss, "weighted_metrics": ["accuracy"]}
    return compiled(model, distributed, arguments)


def _results(model: Any, logs: dict[str, Any], steps: Any) -> dict[str, Any]:
    return {
        "weights": [np.asarray(weight) for weight in model.get_weights()],
        "logs": {name: np.asarray(values) for name, values in logs.items()},
        "built": len(steps.partitions) if hasattr(steps, "partitions") else None,
    }


def fit(distributed: bool) -> dict[str, Any]:
    """Buckets: lengths differ with the numbers of rows."""

    def read() -> Iterator[Any]:
        yield from _batches(LENGTHS)

    spec = (
        tf.TensorSpec([None, None], tf.int32),
        tf.TensorSpec([None], tf.int32),
        tf.TensorSpec([None], tf.float32),
    )
    data = tf.data.Dataset.from_generator(read, output_signature=spec)
    model = _classifier(distributed, recurrent=False)
    history = model.fit(data, epochs=2, verbose=0)
    return _results(model, history.history, getattr(model.train_function, "steps", None))


def train_on_batch(distributed: bool) -> dict[str, Any]:
    """Every second batch updates weights."""
    model = _classifier(distributed, num_accumulated=2)
    losses = [model.train_on_batch(*batch) for batch in _batches((4,) * 10)]
    return _results(
        model,
        {"losses and accuracies": losses},
        getattr(model.train_function, "steps", None),
    )


def own_loop(distributed: bool) -> dict[str, Any]:
    return _own_loop(distributed, lambda x: tf.shape(x)[0], reads_any=True)


def own_loop_that_reads_numbers_of_rows(distributed: bool) -> dict[str, Any]:
    """Its Python code has to know each number."""
    return _own_loop(distributed, lambda x: sum(1 for _ in range(x.shape[0])), reads_any=False)


def own_loop_that_is_built_for_each_number(distributed: bool) -> dict[str, Any]:
    """As for a step that cannot be partitioned for any number of rows."""
    build = traced_steps.build

    def build_for_number(*args: Any, **options: Any) -> Any:
        if args[3] is None:
            raise PartitionError("The number of rows must be known.")
        return build(*args, **options)

    traced_steps.build = build_for_number
    try:
        return own_loop(distributed)
    finally:
        traced_steps.build = build


def _own_loop(
    distributed: bool, rows_of: Callable[[Any], Any], *, reads_any: bool
) -> dict[str, Any]:
    model = _classifier(distributed)
    optimizer = keras.optimizers.SGD(0.1)

    @(tnt.function if distributed else tf.function(reduce_retracing=reads_any))
    def step(x: Any, y: Any, sample_weight: Any) -> Any:
        with tf.GradientTape() as tape:
            embedded = model(x, training=True)
            similarity = tf.matmul(embedded, embedded, transpose_b=True)
            loss = model.loss(y, embedded, sample_weight) + 0.01 * tf.reduce_mean(similarity)
            loss /= tf.cast(rows_of(x), "float32")
        weights = model.trainable_variables
        optimizer.apply(tape.gradient(loss, weights), weights)
        return loss, embedded

    results = [step(*map(tf.constant, batch)) for batch in _batches((4,) * 10)]
    steps = next(iter(step._steps.values())) if distributed else None
    logs = {"loss": [loss for loss, _ in results]}
    logs |= {f"embedded {i}": embedded for i, (_, embedded) in enumerate(results)}
    return _results(model, logs, steps)
