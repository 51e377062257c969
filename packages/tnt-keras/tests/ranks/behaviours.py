"""Runs of Tarantella alone: weights, files, callbacks; each returns plain values."""

from __future__ import annotations

import contextlib
import copy
import io
import logging
import pathlib
import time
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from classifiers import classifier, restarted, samples
from logged import logged
from own_methods import Adversaries

import tnt_keras
from tnt_keras.keras_hooks.patch import replaced


def batches_of(batch_size: int | None = 5) -> Any:
    """The samples in batches, or one by one."""
    data = tf.data.Dataset.from_tensor_slices(samples())
    return data if batch_size is None else data.batch(batch_size)


def unseeded_shuffle() -> list[np.ndarray]:
    """Trains with a shuffle that has no seed."""
    model = restarted(classifier, True)
    data = tf.data.Dataset.from_tensor_slices(samples()).shuffle(22).batch(5)
    model.fit(data, epochs=2, verbose=0)
    return [np.asarray(w) for w in model.get_weights()]


def different_initial_weights() -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Starts each rank with weights of its own; returns those before and after `evaluate`."""
    model = restarted(classifier, True)
    own = [w + tnt_keras.get_rank() for w in model.get_weights()]
    model.set_weights(own)
    model.evaluate(batches_of(), verbose=0)
    return own, [np.asarray(w) for w in model.get_weights()]


def built_by_the_first_step(distributed: bool) -> list[np.ndarray]:
    """Trains a model without an input, whose weights and dropout begin differently on each rank."""
    keras.utils.set_random_seed(1 + tnt_keras.get_rank())
    layers = keras.layers
    model = keras.Sequential([layers.Dense(8, "tanh"), layers.Dropout(0.3), layers.Dense(3)])
    model = tnt_keras.Model(model) if distributed else model
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    x, y = samples()
    for size in (5, 4):  # each with a last batch of another size
        model.fit(x, y, batch_size=size, shuffle=False, verbose=0)
    return [np.asarray(w) for w in model.get_weights()]


def load_and_remove(folder: str) -> bool:
    """Load weights, of which the master removes the file at once while another rank is slow."""
    path = pathlib.Path(folder) / "model.weights.h5"
    classifier(True).save_weights(path)
    model = classifier(True)
    read = keras.Model.load_weights

    def read_slowly(*arguments: Any, **keywords: Any) -> None:
        time.sleep(0.5 * tnt_keras.get_rank())
        read(*arguments, **keywords)

    with replaced(keras.Model, "load_weights", read_slowly):
        model.load_weights(path)
    if tnt_keras.is_master_rank():
        path.unlink()
    return True


def load_what_cannot_be_read(folder: str, name: str) -> tuple[str, str]:
    """Load weights from a file that is missing, or of no format, on the master; the error."""
    model = classifier(True)
    # Each rank names another file: that of the master counts.
    own = name if tnt_keras.is_master_rank() else "model.weights.h5"
    model.save_weights(pathlib.Path(folder) / "model.weights.h5")
    try:
        model.load_weights(pathlib.Path(folder) / own)
    except Exception as error:
        return type(error).__name__, str(error)
    return "", "no error"


def load_on_the_master_only(folder: str) -> tuple[str, str]:
    """Load weights on the master rank, while the others go on to train; return the error."""
    model = classifier(True)
    path = pathlib.Path(folder) / "model.weights.h5"
    model.save_weights(path)
    try:
        if tnt_keras.is_master_rank():
            model.load_weights(path)
        model.fit(batches_of(), verbose=0)
    except Exception as error:
        return type(error).__name__, str(error)
    return "", "no error"


def save_twice(folder: str) -> tuple[str, str]:
    """Saves where a file is, without overwrite."""
    model = classifier(True)
    path = pathlib.Path(folder) / "model.keras"
    model.save(path)
    try:
        model.save(path, overwrite=False)
    except OSError as error:
        return type(error).__name__, str(error)
    return "", "no error"


def save_into_nothing(folder: str) -> tuple[str, str]:
    """Saves into a folder that does not exist."""
    try:
        classifier(True).save(pathlib.Path(folder) / "missing" / "model.keras")
    except OSError as error:
        return type(error).__name__, str(error)
    return "", "no error"


def with_callbacks(folder: str) -> dict[str, Any]:
    """Trains with callbacks that decide, write and schedule."""
    model = restarted(classifier, True)
    history = model.fit(
        batches_of(),
        epochs=8,
        verbose=0,
        validation_data=batches_of(),
        callbacks=[
            keras.callbacks.ModelCheckpoint(f"{folder}/best.keras", save_best_only=True),
            keras.callbacks.CSVLogger(f"{folder}/log.csv"),
            keras.callbacks.EarlyStopping("loss", min_delta=10.0, patience=2),
            keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.5),
        ],
    )
    return {
        "epochs": len(history.history["loss"]),
        "learning_rate": float(model.optimizer.learning_rate),
        "files": sorted(p.name for p in pathlib.Path(folder).iterdir()),
        "log_lines": len(pathlib.Path(f"{folder}/log.csv").read_text().splitlines()),
        "loaded": keras.models.load_model(f"{folder}/best.keras").count_params(),
    }


def copies(folder: str) -> dict[str, bool]:
    """Copies of a trained model and its optimizer."""
    model = classifier(True)
    model.fit(batches_of(), verbose=0)
    copied = copy.deepcopy(model)
    optimizer = type(model.optimizer).from_config(model.optimizer.get_config())
    path = pathlib.Path(folder) / "new" / "exported"
    model.export(path, verbose=False)
    x = samples()[0]
    exported = tf.saved_model.load(str(path))
    served = exported.serve(x)
    return {
        "copy is plain": type(copied) is type(classifier(False)),
        "copy predicts alike": np.allclose(copied.predict(x, verbose=0), served, atol=1e-6),
        "optimizer is plain": type(optimizer) is keras.optimizers.SGD,
        "one folder": [p.name for p in path.parent.iterdir()] == ["exported"],
        "names": _error_of_names(model, pathlib.Path(folder)),
    }


def _error_of_names(model: Any, folder: pathlib.Path) -> bool:
    """Whether errors name the files as the user does."""
    errors = []
    for name in ("model.foo", "missing/model.keras"):
        try:
            model.save(folder / name)
        except (ValueError, FileNotFoundError) as error:
            errors.append(str(error))
    of_name, of_folder = errors
    return f"{folder}/model.foo" in of_name and f"{folder}/missing does not exist" in of_folder


class Telling(keras.layers.Layer):
    """A layer whose description of itself is never the same."""

    def get_config(self) -> dict[str, Any]:
        return {"made": repr(object()), "targets": [f"dense_{tnt_keras.get_rank()}"]}

    def call(self, inputs: Any) -> Any:
        return inputs


def training_with_other_names_and_seeds(distributed: bool) -> dict[str, Any]:
    """Names of layers and outputs, seeds and descriptions of own layers differ between ranks."""
    if distributed and tnt_keras.is_master_rank():
        keras.Sequential([keras.Input((10,)), keras.layers.Dense(3), Telling()])
    keras.utils.set_random_seed(3)
    inner = keras.Input((5,))
    inputs = keras.Input((2, 5))
    rows = keras.layers.TimeDistributed(keras.Model(inner, keras.layers.Dense(4)(inner)))(inputs)
    flat = Telling()(keras.layers.Flatten()(rows))
    dropped = keras.layers.Dropout(0.0, seed=tnt_keras.get_rank())(flat)
    model = keras.Model(inputs, [keras.layers.Dense(1)(dropped), keras.layers.Dense(2)(dropped)])
    losses = dict(zip(model.output_names, ["mse", "mae"], strict=True))
    model = tnt_keras.Model(model) if distributed else model
    model.compile("sgd", losses, loss_weights=dict.fromkeys(losses, 0.5))
    x, _ = samples()
    targets = [x[:, :1], x[:, 1:3]]
    model.fit(x.reshape(-1, 2, 5), targets, batch_size=7, epochs=2, shuffle=False, verbose=0)
    return {"weights": model.get_weights(), "loss": model.history.history["loss"]}


def kinds() -> dict[str, bool]:
    """What a distributed model is."""
    plain = keras.Sequential([keras.Input((10,)), keras.layers.Dense(3)])
    model = tnt_keras.Model(plain)
    clone = keras.models.clone_model(model)
    return {
        "same object": model is plain,
        "tnt.Model": isinstance(model, tnt_keras.Model),
        "keras.Model": isinstance(model, keras.Model),
        "Sequential": isinstance(model, keras.Sequential),
        "clone is plain": not isinstance(clone, tnt_keras.Model),
        "twice is once": tnt_keras.Model(model) is model,
        "json is plain": "tnt" not in model.to_json(),
    }


def batch_norm(synchronized: bool, batch_size: int) -> dict[str, Any]:
    """Trains with batch normalisation; returns weights, moving mean and what was logged."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input((10,)),
            keras.layers.BatchNormalization(momentum=0.5, synchronized=synchronized),
            keras.layers.Dense(3, activation="softmax"),
        ]
    )
    model = tnt_keras.Model(model)
    model.compile(keras.optimizers.SGD(0.0), "sparse_categorical_crossentropy")
    with logged() as messages:
        model.fit(batches_of(batch_size), epochs=1, verbose=0)
    return {
        "weights": [np.asarray(w) for w in model.get_weights()],
        "moving_mean": np.asarray(model.layers[0].moving_mean),
        "messages": messages,
    }


class _OwnNormalization(keras.layers.BatchNormalization):
    def call(self, inputs: Any, training: bool | None = None) -> Any:
        return inputs - keras.ops.mean(inputs, axis=0) if training else inputs


def explained() -> dict[str, Any]:
    """Trains with batch normalisation of both kinds; returns logs and what `explain` prints."""
    layers = keras.layers
    model = tnt_keras.Sequential(
        [
            keras.Input((10,)),
            layers.BatchNormalization(),
            layers.BatchNormalization(trainable=False),
            layers.BatchNormalization(synchronized=True),
            _OwnNormalization(),
            layers.Dense(3, activation="softmax"),
        ],
        check=False,  # which logs lines of its own
    )
    model.compile("sgd", "sparse_categorical_crossentropy")
    with pytest.raises(RuntimeError, match="No step has run yet"):
        tnt_keras.explain(model)
    with logged(logging.INFO) as messages:
        model.fit(batches_of(32), verbose=0)
        model.fit(batches_of(32), verbose=0)

    @tnt_keras.function
    def mean(x: Any) -> Any:
        return tf.reduce_mean(x)

    mean(np.ones((6, 2), np.float32))
    return {
        "messages": messages,
        "of the model": _printed(lambda: tnt_keras.explain(model)),
        "of the function": _printed(lambda: tnt_keras.explain(mean)),
    }


def checked_with_a_wrong_rule() -> list[str]:
    """Runs a step of which the table says that it is linear; returns the errors of the log."""
    from tnt_keras.partition.rules import registry

    @tnt_keras.function(check=True)
    def step(x: Any) -> Any:
        return tf.tanh(tf.reduce_sum(x), name="wrong")

    registry._table["Tanh"] = registry._table["Neg"]
    with logged(logging.ERROR) as messages:
        step(np.linspace(-0.5, 1, 7, dtype=np.float32))
    return messages


def _printed(show: Callable[[], None]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        show()
    return printed.getvalue()


def optimizers_kept_by_a_second_compile(spoil: bool) -> dict[str, Any]:
    """Trains a GAN, compiles it again with the same optimizers, and trains on.

    Args:
        spoil: Whether to change, in between, an optimizer's state on all ranks but the master.
    """
    keras.utils.set_random_seed(14)
    model = tnt_keras.Model(Adversaries())
    optimizers = [keras.optimizers.SGD(0.1, momentum=0.9) for _ in range(2)]
    known = []
    for is_first in (True, False):
        model.compile(*optimizers)
        if spoil and not is_first and tnt_keras.get_rank() > 0:
            for variable in optimizers[1].variables[2:]:
                variable.assign(tf.ones_like(variable))
        model.fit(samples()[0], batch_size=5, shuffle=False, verbose=0)
        kept = model._tnt_owner.optimizers
        known.append([sum(o is optimizer for o in kept) for optimizer in optimizers])
    states = [np.asarray(v) for optimizer in optimizers for v in optimizer.variables]
    return {"known": known, "variables": [*map(np.asarray, model.get_weights()), *states]}
