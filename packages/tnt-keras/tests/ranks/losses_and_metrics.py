"""Runs with losses, metrics and weights of `compile` and `fit`."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from classifiers import NUM_SAMPLES, classifier, compiled, results_of, samples, weights_of


def sample_weights(distributed: bool, reduction: str) -> dict[str, Any]:
    """A dataset with sample weights, for each reduction of the loss."""
    loss = keras.losses.SparseCategoricalCrossentropy(reduction=reduction)
    model = classifier(distributed, loss=loss, weighted_metrics=["accuracy"], metrics=None)
    data = tf.data.Dataset.from_tensor_slices((*samples(), weights_of())).batch(5)
    return results_of(model, model.fit(data, epochs=3, verbose=0))


def ignored_class(distributed: bool) -> dict[str, Any]:
    """A loss that masks by label, so that its denominator is the number of other labels."""
    loss = keras.losses.SparseCategoricalCrossentropy(ignore_class=0)
    model = classifier(distributed, loss=loss, metrics=None)
    data = tf.data.Dataset.from_tensor_slices(samples()).batch(5)
    return results_of(model, model.fit(data, epochs=3, verbose=0))


def class_weights(distributed: bool) -> dict[str, Any]:
    """`class_weight` with a dataset."""
    model = classifier(distributed)
    data = tf.data.Dataset.from_tensor_slices(samples()).batch(5)
    history = model.fit(data, epochs=3, verbose=0, class_weight={0: 0.2, 1: 1.5, 2: 4.0})
    return results_of(model, history)


def many_metrics(distributed: bool) -> dict[str, Any]:
    """Metrics whose results are no means: they are right only if their states are summed."""
    metrics = [
        keras.metrics.AUC(name="auc"),
        keras.metrics.F1Score(average="macro"),
        keras.metrics.Precision(name="precision"),
        keras.metrics.RootMeanSquaredError(),
        keras.metrics.R2Score(),
    ]
    model = classifier(distributed, loss="categorical_crossentropy", metrics=metrics)
    x, y = samples()
    data = tf.data.Dataset.from_tensor_slices((x, np.eye(3, dtype="float32")[y])).batch(5)
    results = results_of(model, model.fit(data, epochs=2, verbose=0))
    return results | {"evaluate": model.evaluate(data, verbose=0)}


def several_outputs(distributed: bool) -> dict[str, Any]:
    """Two inputs and two outputs with losses of different denominators, as dictionaries."""
    keras.utils.set_random_seed(12)
    features = keras.Input((10,), name="features")
    tokens = keras.Input((4,), dtype="int32", name="tokens")
    embedded = keras.layers.Embedding(6, 5, mask_zero=True)(tokens)
    tags = keras.layers.Dense(3, activation="softmax", name="tags")(embedded)
    label = keras.layers.Dense(3, activation="softmax", name="label")(features)
    model = compiled(
        keras.Model({"features": features, "tokens": tokens}, {"tags": tags, "label": label}),
        distributed,
        {
            "optimizer": "sgd",
            "loss": {
                "tags": "sparse_categorical_crossentropy",
                "label": keras.losses.SparseCategoricalCrossentropy(reduction="sum"),
            },
            "loss_weights": {"tags": 0.7, "label": 0.1},
            "metrics": {"label": ["accuracy"]},
        },
    )
    x, y = samples()
    rng = np.random.default_rng(4)
    words = rng.integers(0, 6, (NUM_SAMPLES, 4)).astype("int32")
    data = tf.data.Dataset.from_tensor_slices(
        (
            {"features": x, "tokens": words},
            {"tags": rng.integers(0, 3, (NUM_SAMPLES, 4)).astype("int32"), "label": y},
        )
    ).batch(5)
    results = results_of(model, model.fit(data, epochs=3, verbose=0))
    predictions = model.predict(data, verbose=0)
    return results | {"predict": [predictions["tags"], predictions["label"]]}
