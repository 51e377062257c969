"""Trainings on text of many lengths; each run returns numpy values and how much was built."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from classifiers import compiled

import tnt_keras as tnt

LENGTHS = (7, 4, 9, 2, 6, 11, 1, 5)
BATCH_SIZE = 5
WORDS = 13
NUM_IN_LAST = 3


def _tokens(rows: int, length: int, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng([seed, rows, length])
    tokens = rng.integers(1, WORDS, (rows, length)).astype("int32")
    tokens[np.arange(length) >= rng.integers(1, length + 1, (rows, 1))] = 0
    return tokens, (tokens.sum(1) % 3).astype("int32")


def _batches() -> list[tuple[Any, Any]]:
    """Batches of eight lengths, and one of fewer rows."""
    batches = [_tokens(BATCH_SIZE, length, seed) for seed, length in enumerate(LENGTHS)]
    return [*batches, _tokens(NUM_IN_LAST, 8, 0)]


def _classifier(distributed: bool) -> Any:
    keras.utils.set_random_seed(3)
    model = keras.Sequential(
        [
            keras.Input((None,), dtype="int32"),
            keras.layers.Embedding(WORDS, 6, mask_zero=True),
            keras.layers.Dense(4, activation="tanh"),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dropout(0.2),
            keras.layers.Dense(3),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    arguments = {"optimizer": keras.optimizers.Adam(0.01), "loss": loss, "metrics": ["accuracy"]}
    return compiled(model, distributed, arguments)


def _results(model: Any, logs: dict[str, Any], steps: Any) -> dict[str, Any]:
    return {
        "weights": [np.asarray(weight) for weight in model.get_weights()],
        "logs": {name: np.asarray(values) for name, values in logs.items()},
        **({"built": len(steps.partitions)} if hasattr(steps, "partitions") else {}),
    }


def _steps_of(model: Any) -> Any:
    return getattr(model.train_function, "steps", None)


def padded_batches(distributed: bool) -> dict[str, Any]:
    samples = [
        (row[row > 0], label) for x, y in _batches() for row, label in zip(x, y, strict=True)
    ]
    flat = tf.constant(np.concatenate([row for row, _ in samples]))
    ends = np.cumsum([len(row) for row, _ in samples])
    begins = ends - [len(row) for row, _ in samples]
    data = tf.data.Dataset.from_tensor_slices((begins, ends, [label for _, label in samples]))
    data = data.map(lambda begin, end, label: (flat[begin:end], label))
    data = data.padded_batch(BATCH_SIZE)
    model = _classifier(distributed)
    history = model.fit(data, epochs=2, verbose=0)
    predicted = {"predicted": model.predict(data, verbose=0)}
    return _results(model, history.history | predicted, _steps_of(model))


class Batches(keras.utils.PyDataset):
    def __len__(self) -> int:
        return len(_batches())

    def __getitem__(self, index: int) -> Any:
        return _batches()[index]


def py_dataset(distributed: bool) -> dict[str, Any]:
    model = _classifier(distributed)
    history = model.fit(Batches(), epochs=2, shuffle=False, verbose=0)
    return _results(model, history.history, _steps_of(model))


def train_on_batch(distributed: bool) -> dict[str, Any]:
    model = _classifier(distributed)
    losses = [model.train_on_batch(x, y, return_dict=True)["loss"] for x, y in _batches()]
    return _results(model, {"loss": losses}, _steps_of(model))


def own_loop(distributed: bool) -> dict[str, Any]:
    model = _classifier(distributed)
    optimizer = keras.optimizers.SGD(0.1)

    @(tnt.function if distributed else tf.function)
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = model.loss(y, model(x, training=True))
            loss /= tf.cast(tf.shape(x)[1], "float32")
        weights = model.trainable_variables
        optimizer.apply(tape.gradient(loss, weights), weights)
        return loss, model.layers[0](x)

    results = [step(tf.constant(x), tf.constant(y)) for x, y in _batches()]
    steps = next(iter(step._steps.values())) if distributed else None
    logs = {"loss": [loss for loss, _ in results]}
    logs |= {f"embedded {i}": embedded for i, (_, embedded) in enumerate(results)}
    return _results(model, logs, steps)


def lengths_of_this_rank() -> str:
    """Each rank reads batches of its own, of another length than those of others."""
    model = _classifier(True)
    lengths = [[5, 6, 7, 4], [5, 6, 7, 8]][tnt.get_rank() % 2]

    def read() -> Iterator[Any]:
        for length in lengths:
            yield _tokens(4, length, 0)

    spec = (tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None], tf.int32))
    data = tf.data.Dataset.from_generator(read, output_signature=spec)
    try:
        model.fit(data, tnt_distribute_dataset=False, verbose=0)
    except Exception as error:
        return str(error)
    return ""
