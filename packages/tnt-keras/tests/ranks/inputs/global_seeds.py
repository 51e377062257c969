"""Trainings of ranks that have set global seeds of their own, in plain Keras and in Tarantella."""

from __future__ import annotations

import random
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from classifiers import classifier, restarted, samples, weighted_classifier
from forms_of_samples import BATCH_SIZE, NUM_SAMPLES, Batches, arrays

import tnt_keras

SEED = 7


def _set_seed_of_rank() -> None:
    keras.utils.set_random_seed(SEED + tnt_keras.get_rank())


def train(kind: str, distributed: bool) -> dict[str, Any]:
    """Trains on shuffled arrays after `set_random_seed(seed + rank)`."""
    x, y, weights = arrays()
    options: dict[str, Any] = {
        "arrays": {},
        "split": {"validation_split": 0.3},
        "weights": {"sample_weight": weights, "validation_data": (x, y, weights)},
        "class weights": {"class_weight": {0: 0.2, 1: 1.5, 2: 4.0}},
        "verified": {"verify_inputs": True} if distributed else {},
        "steps": {"steps_per_epoch": 3},
    }
    model = restarted(weighted_classifier if kind == "weights" else classifier, distributed)
    _set_seed_of_rank()
    losses = []
    for _ in range(2):  # Keras draws the same order in each call
        history = model.fit(
            x, y, batch_size=BATCH_SIZE, epochs=2, verbose=0, **options[kind]
        ).history
        losses.append(history)
    return {"weights": [np.asarray(w) for w in model.get_weights()], "histories": losses}


def train_own_model(distributed: bool) -> dict[str, Any]:
    """All of a script, from the first weights on, after `set_random_seed(seed + rank)`.

    A layer draws from Python's generators while the step is traced.
    """
    _set_seed_of_rank()
    drawn = keras.layers.Lambda(lambda x: x * (random.random() + np.random.random()))
    model = keras.Sequential([keras.Input((10,)), drawn, keras.layers.Dense(3, "softmax")])
    if distributed:
        model = tnt_keras.Model(model)
    model.compile("sgd", "sparse_categorical_crossentropy")
    history = model.fit(*samples(NUM_SAMPLES), batch_size=BATCH_SIZE, epochs=2, verbose=0)
    return {"weights": model.get_weights(), "histories": [history.history]}


def train_on_batches() -> list[np.ndarray]:
    """Trains on shuffled batches of a `PyDataset` after `set_random_seed(seed + rank)`."""
    model = restarted(weighted_classifier, True)
    _set_seed_of_rank()
    model.fit(Batches(), epochs=2, verbose=0)
    return [np.asarray(w) for w in model.get_weights()]


def error_of_dataset() -> str:
    """What is said of a dataset that is shuffled after `set_random_seed(seed + rank)`."""
    model = restarted(classifier, True)
    _set_seed_of_rank()
    data = tf.data.Dataset.from_tensor_slices(samples(20)).shuffle(20).batch(5)
    try:
        model.fit(data, verbose=0)
    except ValueError as error:
        return str(error)
    return "no error"
