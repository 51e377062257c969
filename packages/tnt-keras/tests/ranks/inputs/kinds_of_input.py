"""Training, evaluation and prediction on all kinds of input, in plain Keras and in Tarantella."""

from __future__ import annotations

import contextlib
import random
import unittest.mock
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from classifiers import classifier, restarted, results_of, samples, weighted_classifier
from forms_of_samples import (
    BATCH_SIZE,
    NUM_SAMPLES,
    STEPS,
    Batches,
    BatchesWithoutEnd,
    RowsOfBatches,
    arrays,
    dataset,
    generator,
)

import tnt_keras

Fit = Callable[..., Any]


def fit_arrays(fit: Fit, **more: Any) -> Any:
    x, y, weights = arrays()
    return fit(x, y, sample_weight=weights, batch_size=BATCH_SIZE, shuffle=False, **more)


FITS: dict[str, Fit] = {
    "arrays": fit_arrays,
    "dataset without end": lambda fit, **more: fit(
        dataset().batch(BATCH_SIZE).repeat(), steps_per_epoch=STEPS, **more
    ),
    "dataset of unknown length": lambda fit, **more: fit(
        dataset().filter(lambda x, y, w: True).batch(BATCH_SIZE), **more
    ),
    "decoded": lambda fit, **more: fit(
        dataset().map(lambda x, y, w: (x + 0.0, y, w), num_parallel_calls=2).batch(BATCH_SIZE),
        **more,
    ),
    "PyDataset": lambda fit, **more: fit(Batches(), shuffle=False, **more),
    "PyDataset with workers": lambda fit, **more: fit(Batches(workers=2), shuffle=False, **more),
    "PyDataset with processes": lambda fit, **more: fit(
        Batches(workers=2, use_multiprocessing=True), shuffle=False, **more
    ),
    "PyDataset without end": lambda fit, **more: fit(
        BatchesWithoutEnd(), steps_per_epoch=STEPS, shuffle=False, **more
    ),
    "rows of a PyDataset": lambda fit, **more: fit(RowsOfBatches(), shuffle=False, **more),
    "generator": lambda fit, **more: fit(generator(), steps_per_epoch=STEPS, shuffle=False, **more),
}


def train(kind: str, distributed: bool, verify: bool = False) -> dict[str, Any]:
    """Trains on one kind of input, which is also the data for validation."""
    model = restarted(_in_pairs_of_steps if verify else weighted_classifier, distributed)
    more: dict[str, Any] = {"verify_inputs": True} if verify else {}
    if kind == "dataset without end":
        more["validation_steps"] = STEPS
    with _noted_tuning() as tuning:
        validation = _validation(kind)
        history = FITS[kind](model.fit, epochs=2, verbose=0, validation_data=validation, **more)
    return {
        "weights": [np.asarray(w) for w in model.get_weights()],
        "history": history.history,
        "tuning": tuning,
    }


@contextlib.contextmanager
def _noted_tuning() -> Iterator[list[bool | None]]:
    """Notes of each dataset that is read whether TensorFlow tunes it, None for its default."""
    noted: list[bool | None] = []
    read = tf.data.Dataset.__iter__

    def note(dataset: tf.data.Dataset) -> Any:
        noted.append(dataset.options().autotune.enabled)
        return read(dataset)

    with unittest.mock.patch.object(tf.data.Dataset, "__iter__", note):
        yield noted


def train_to_an_unknown_end(distributed: bool) -> dict[str, Any]:
    """Trains on batches of a fixed size with an optimizer whose updates depend on its steps."""
    model = restarted(_with_adam, distributed)
    batches = dataset().filter(lambda *_: True).batch(BATCH_SIZE, drop_remainder=True)
    history = model.fit(batches, epochs=2, verbose=0)
    return {
        "iterations": int(model.optimizer.iterations.numpy()),
        "weights": [np.asarray(w) for w in model.get_weights()],
        "loss": history.history["loss"],
    }


def _with_adam(distributed: bool) -> Any:
    return classifier(distributed, optimizer=keras.optimizers.Adam(0.05))


def _in_pairs_of_steps(distributed: bool) -> Any:
    return classifier(
        distributed, weighted_metrics=["accuracy"], metrics=None, steps_per_execution=2
    )  # of 5 steps


def _validation(kind: str) -> Any:
    if "PyDataset" in kind or kind == "arrays":
        return RowsOfBatches() if "rows" in kind else Batches()
    samples_of_all = dataset()
    if "unknown length" in kind:
        samples_of_all = samples_of_all.filter(lambda x, y, w: True)
    batches = samples_of_all.batch(BATCH_SIZE)
    return batches.repeat() if "without end" in kind else batches


def evaluate_and_predict(kind: str, distributed: bool) -> dict[str, Any]:
    """Evaluates and predicts with one kind of input."""
    model = restarted(weighted_classifier, distributed)
    data: dict[str, Callable[[], Any]] = {
        "PyDataset": Batches,
        "rows of a PyDataset": RowsOfBatches,
        "generator": generator,
    }
    return {
        "evaluate": model.evaluate(data[kind](), steps=STEPS, verbose=0),
        "predict": model.predict(data[kind](), steps=STEPS, verbose=0),
    }


def structures(distributed: bool, kind: str) -> dict[str, Any]:
    """A model of two inputs and two targets: lists or dictionaries of arrays and tensors."""
    keras.utils.set_random_seed(21)
    inputs = [keras.Input((10,), name="a"), keras.Input((1,), name="b")]
    joined = keras.layers.Concatenate()(inputs)
    outputs = [keras.layers.Dense(1, name="c")(joined), keras.layers.Dense(2, name="d")(joined)]
    if kind == "dictionaries":
        outputs = dict(zip("cd", outputs, strict=True))
    model = keras.Model(inputs, outputs)
    if distributed:
        model = tnt_keras.Model(model)
    losses = {"c": "mse", "d": "mae"}
    model.compile("sgd", losses if kind == "dictionaries" else list(losses.values()))
    x, y = samples(NUM_SAMPLES)
    a, b = [tf.constant(x), y[:, None].astype("float32")], [y[:, None] / 3.0, tf.constant(x[:, :2])]
    if kind == "dictionaries":
        a, b = dict(zip("ab", a, strict=True)), dict(zip("cd", b, strict=True))
    history = model.fit(a, b, batch_size=7, shuffle=False, validation_split=0.3, verbose=0)
    return results(model, history, model.evaluate(a, b, batch_size=7, verbose=0)) | {
        "predict": keras.tree.flatten(model.predict(a, batch_size=7, verbose=0))
    }


def unbatched(distributed: bool) -> dict[str, Any]:
    """Unbatched datasets in `fit`, for validation, in `evaluate` and in `predict`."""
    model = restarted(weighted_classifier, distributed)

    def data() -> Any:
        return dataset() if distributed else dataset().batch(6)

    micro: dict[str, Any] = {"tnt_micro_batch_size": 3} if distributed else {}
    validation = {"tnt_validation_micro_batch_size": 3} if distributed else {}
    history = model.fit(data(), validation_data=data(), epochs=2, verbose=0, **micro, **validation)
    return results(model, history, model.evaluate(data(), verbose=0, **micro)) | {
        "predict": model.predict(data(), verbose=0, **micro)
    }


def arrays_with_micro_batches(distributed: bool) -> dict[str, Any]:
    """Arrays, whose batch sizes are given for each rank."""
    model, (x, y) = restarted(classifier, distributed), samples(NUM_SAMPLES)
    size: dict[str, Any] = {"batch_size": 6, "validation_batch_size": 4}
    if distributed:
        size = {"batch_size": 6, "tnt_validation_micro_batch_size": 2}
    history = model.fit(x, y, validation_data=(x, y), shuffle=False, verbose=0, **size)
    micro = {"tnt_micro_batch_size": 2} if distributed else {"batch_size": 4}
    return results(model, history, model.evaluate(x, y, verbose=0, **micro))


def rows_made() -> list[int]:
    """Rows that a rank makes for one epoch, without the batches that Keras looks at first."""
    model, batches = restarted(classifier, True), RowsOfBatches()
    model.fit(batches, epochs=1, verbose=0, shuffle=False)
    return sorted(set(batches.made))


SHUFFLED: dict[str, Fit] = {
    "arrays": lambda fit, **more: fit(*samples(NUM_SAMPLES), batch_size=BATCH_SIZE, **more),
    "PyDataset": lambda fit, **more: fit(Batches(), **more),
    "PyDataset with workers": lambda fit, **more: fit(Batches(workers=2), **more),
    "PyDataset in parts of its length": lambda fit, **more: fit(
        Batches(), steps_per_epoch=2, **more
    ),
    "rows of a PyDataset": lambda fit, **more: fit(RowsOfBatches(), **more),
}


def shuffled(distributed: bool, kind: str) -> dict[str, Any]:
    """Trains with `shuffle=True`, Keras' default; what is drawn then."""
    model = restarted(weighted_classifier, distributed)
    keras.utils.set_random_seed(5)  # making a model draws, too
    history = SHUFFLED[kind](model.fit, epochs=4, verbose=0)
    return results_of(model, history) | {"next draw": random.random()}


def _that_learns_nothing(distributed: bool) -> Any:
    return classifier(distributed, optimizer=keras.optimizers.SGD(0.0))


def orders_of_calls(kind: str) -> list[list[float]]:
    """Losses of the steps of two calls of `fit` for a model that learns nothing."""
    model = restarted(_that_learns_nothing, True)
    tf.random.set_seed(None)
    losses: list[list[float]] = []
    note = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: losses.append([]),
        on_train_batch_end=lambda batch, logs: losses[-1].append(float(logs["loss"])),
    )
    for _ in range(2):
        if kind == "arrays":
            x, y = samples(NUM_SAMPLES)
            model.fit(x, y, batch_size=BATCH_SIZE, verbose=0, callbacks=[note])
        else:
            model.fit(Batches(), verbose=0, callbacks=[note])
    return losses


def generators_that_go_on() -> list[float]:
    """Losses of several calls with the same two generators, of which ranks compare what they read.

    Keras reads ahead, in a thread of its own: that must not put ranks out of step.
    """
    model, train, test = restarted(classifier, True), generator(), generator()
    losses: list[float] = []
    for steps in (1, 3):
        history = model.fit(
            train,
            epochs=3,
            steps_per_epoch=steps,
            validation_data=test,
            validation_steps=2,
            shuffle=False,
            verbose=0,
            verify_inputs=True,
        )
        losses += history.history["loss"] + history.history["val_loss"]
        losses += [model.evaluate(test, steps=steps, verbose=0, verify_inputs=True)[0]]
    return losses


def results(model: Any, history: Any, evaluated: Any) -> dict[str, Any]:
    """Weights, history and what `evaluate` has returned."""
    return {
        "weights": [np.asarray(w) for w in model.get_weights()],
        "history": history.history,
        "evaluate": evaluated,
    }
