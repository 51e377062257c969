"""Runs of `fit`, `evaluate`, `predict` and their relatives."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from classifiers import NUM_SAMPLES, classifier, results_of, samples, weights_of

import tnt_keras


def arrays(distributed: bool) -> dict[str, Any]:
    """NumPy arrays, sample weights and a validation split, in the given order."""
    model = classifier(distributed)
    x, y = samples()
    history = model.fit(
        x,
        y,
        batch_size=5,
        sample_weight=weights_of(),
        validation_split=0.3,
        shuffle=False,
        epochs=3,
        verbose=0,
    )
    return results_of(model, history) | {
        "evaluate": model.evaluate(x, y, batch_size=7, verbose=0),
        "predict": model.predict(x, batch_size=7, verbose=0),
    }


def on_batch(distributed: bool) -> dict[str, Any]:
    """`train_on_batch` and its relatives take a global batch."""
    model = classifier(distributed)
    x, y = samples(7)
    train = [model.train_on_batch(x, y, sample_weight=weights_of(7)) for _ in range(3)]
    return {
        "weights": [np.asarray(w) for w in model.get_weights()],
        "train": np.asarray(train),
        "test": np.asarray(model.test_on_batch(x, y)),
        "predict": model.predict_on_batch(x[:2]),
    }


def infinite_data(distributed: bool) -> dict[str, Any]:
    """`repeat` and `steps_per_epoch`, with batches across the end of the samples."""
    model = classifier(distributed)
    data = (
        tf.data.Dataset.from_tensor_slices(samples()).shuffle(NUM_SAMPLES, seed=1).repeat().batch(5)
    )
    history = model.fit(data, epochs=3, steps_per_epoch=4, verbose=0)
    return results_of(model, history)


def several_rows_per_sample(distributed: bool) -> dict[str, Any]:
    """Predictions of two rows for each sample, the last batch of fewer samples than ranks."""
    inputs = keras.Input((10,))
    model = keras.Model(inputs, keras.ops.reshape(inputs, (-1, 5)))
    if distributed:
        model = tnt_keras.Model(model)
    x = samples()[0]
    return {"weights": [], "predict": model.predict(x, batch_size=7, verbose=0)}
