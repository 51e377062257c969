"""Datasets of batches that no transformation has made, in plain Keras and in Tarantella."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from classifiers import classifier, restarted, samples, weighted_classifier, weights_of

SIZES = (5, 7, 1, 9)
"""Of the batches: varying, not divisible, fewer than ranks."""
SPEC = (tf.TensorSpec([None, 10]), tf.TensorSpec([None], tf.int32), tf.TensorSpec([None]))


def _batches() -> Iterator[tuple[np.ndarray, ...]]:
    (x, y), weights, begin = samples(sum(SIZES)), weights_of(sum(SIZES)), 0
    for size in SIZES:
        rows = slice(begin, begin + size)
        yield x[rows], y[rows], weights[rows]
        begin += size


def _generated() -> Any:
    return tf.data.Dataset.from_generator(_batches, output_signature=SPEC)


def _slices() -> Any:
    x, y = samples(20)
    weights = weights_of(20).reshape(4, 5)
    return tf.data.Dataset.from_tensor_slices((x.reshape(4, 5, 10), y.reshape(4, 5), weights))


def _recorded() -> Any:
    """Batches as texts, one text each, as in a file of records."""
    texts = [[tf.io.serialize_tensor(one).numpy() for one in batch] for batch in _batches()]

    def parse(text: Any) -> tuple[Any, ...]:
        return tuple(
            tf.ensure_shape(tf.io.parse_tensor(text[i], spec.dtype), spec.shape)
            for i, spec in enumerate(SPEC)
        )

    return tf.data.Dataset.from_tensor_slices(texts).map(parse)


DATA: dict[str, Callable[[], Any]] = {
    "from_tensors": lambda: tf.data.Dataset.from_tensors((*samples(13), weights_of(13))),
    "slices of batches": _slices,
    "generator": _generated,
    "records": _recorded,
    "shuffled": lambda: _slices().shuffle(4, seed=3).map(lambda x, y, w: (2 * x, y, w)).cache(),
    "without end": lambda: _generated().repeat().prefetch(2),
}


def train(distributed: bool, kind: str) -> dict[str, Any]:
    """Fits with validation, evaluates and predicts."""
    model = restarted(weighted_classifier, distributed)
    steps = 6 if kind == "without end" else None
    more = {"verify_inputs": True} if kind == "shuffled" and distributed else {}
    history = model.fit(
        DATA[kind](),
        epochs=3,
        steps_per_epoch=steps,
        validation_data=DATA[kind](),
        validation_steps=steps,
        verbose=0,
        **more,
    )
    return {
        "weights": [np.asarray(w) for w in model.get_weights()],
        "history": history.history,
        "evaluate": model.evaluate(DATA[kind](), steps=steps, verbose=0),
        "predict": model.predict(DATA[kind]().map(lambda x, y, w: x), steps=steps, verbose=0),
    }


def single_samples(distributed: bool, refused: bool) -> str:
    """The error for a dataset that was not batched: its shapes differ, or do by chance not."""
    x, y = samples(12)
    element = (x, y) if refused else (x[:, :1], y[:, None])
    try:
        classifier(distributed).fit(tf.data.Dataset.from_tensor_slices(element), verbose=0)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def unequal_rows(distributed: bool) -> str:
    """The error for elements whose components turn out to have other numbers of rows."""

    def batches() -> Iterator[Any]:
        x, y = samples(5)
        yield x, y[:4]

    data = tf.data.Dataset.from_generator(batches, output_signature=SPEC[:2])
    try:
        classifier(distributed).fit(data, verbose=0)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"
