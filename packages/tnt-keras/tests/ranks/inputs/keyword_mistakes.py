"""Mistakes in the arguments of one input, made for training, validation and evaluation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from classifiers import classifier, samples
from forms_of_samples import Batches

import tnt_data
import tnt_keras
from tnt_data import pipeline
from tnt_keras.keras_hooks.patch import replaced

KEYWORDS: dict[str, dict[str, str]] = {
    "training": {
        "samples": "x",
        "batch": "batch_size",
        "micro-batch": "tnt_micro_batch_size",
        "distribute": "tnt_distribute_dataset",
        "steps": "steps_per_epoch",
    },
    "validation": {
        "samples": "validation_data",
        "batch": "validation_batch_size",
        "micro-batch": "tnt_validation_micro_batch_size",
        "distribute": "tnt_distribute_validation_dataset",
        "steps": "validation_steps",
    },
    "evaluation": {
        "samples": "x",
        "batch": "batch_size",
        "micro-batch": "tnt_micro_batch_size",
        "distribute": "tnt_distribute_dataset",
        "steps": "steps",
    },
}
"""How the user calls the arguments of an input, in each of the three places."""


def batched(num_samples: int = 20) -> tf.data.Dataset:
    """Samples in batches of 5."""
    return unbatched(num_samples).batch(5)


def unbatched(num_samples: int = 20) -> tf.data.Dataset:
    """Samples one by one."""
    return tf.data.Dataset.from_tensor_slices(samples(num_samples))


def _shared_already() -> tf.data.Dataset:
    return tnt_data.distribute(batched(), tnt_keras.get_rank(), tnt_keras.get_size())


def _fewer_on_rank_1() -> tf.data.Dataset:
    return batched(20 - 5 * tnt_keras.get_rank())


MISTAKES: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "unbatched": (unbatched, {}),
    "contradicting micro-batch": (batched, {"micro-batch": 5}),
    "micro-batch of nothing": (lambda: samples(20), {"micro-batch": 0}),
    "micro-batch of words": (lambda: samples(20), {"micro-batch": "5"}),
    "micro-batch of own samples": (batched, {"micro-batch": 5, "distribute": False}),
    "micro-batch of whole batches": (Batches, {"micro-batch": 5}),
    "two sizes": (lambda: samples(20), {"batch": 10, "micro-batch": 5}),
    "shared already": (_shared_already, {}),
    "other dataset": (_fewer_on_rank_1, {}),
    "other number of steps": (_fewer_on_rank_1, {"distribute": False}),
    "unknown kind": (lambda: [samples(5), "no array"], {}),
}
"""The samples, and other arguments by the names of `KEYWORDS`."""


def error_of(mistake: str, place: str) -> tuple[str, str]:
    """Make one mistake in one place; return the class and text of the error."""
    make, arguments = MISTAKES[mistake]
    given = {KEYWORDS[place][name]: value for name, value in arguments.items()}
    try:
        _call(place, make(), given)
    except Exception as error:  # the kind is what the test looks at
        return type(error).__name__, str(error)
    return "", "no error"


def _call(place: str, data: Any, given: dict[str, Any]) -> None:
    model = classifier(True)
    if place == "validation":
        model.fit(batched(), validation_data=data, verbose=0, **given)
        return
    x, y = data if isinstance(data, tuple) else (data, None)
    method = model.fit if place == "training" else model.evaluate
    method(x, y, verbose=0, **given)


def reads_of_fit(validate: bool) -> int:
    """Return how often one call of `fit` reads the transformations of its datasets."""
    reads = []

    def counted(*arguments: Any) -> Any:
        reads.append(arguments[0])
        return read(*arguments)

    read = pipeline.read_transformations
    with replaced(pipeline, "read_transformations", counted):
        classifier(True).fit(batched(), verbose=0, validation_data=batched() if validate else None)
    return len(reads)


def default_of_validation() -> list[float]:
    """Return the losses for validation by several ways to give its batch size, or none."""
    x, y = samples(20)
    keras.utils.set_random_seed(3)
    model = classifier(True)
    losses = []
    for arguments in (
        {"batch_size": 5, "validation_data": (x, y)},
        {"batch_size": 5, "validation_data": (x, y), "validation_batch_size": 7},
        {"tnt_micro_batch_size": 3, "validation_data": (x, y)},
        {"batch_size": 5, "validation_data": (x, y), "tnt_validation_micro_batch_size": 2},
    ):
        model.optimizer.learning_rate = 0.0
        history = model.fit(x, y, verbose=0, **arguments)
        losses.append(history.history["val_loss"][0])
    return losses
