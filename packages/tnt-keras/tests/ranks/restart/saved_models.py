"""Saves, loads and continued trainings; each returns plain values."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import pathlib
import pickle
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from classifiers import classifier, samples

import tnt_keras
from tnt_keras import models
from tnt_keras.calls import files as files_of_ranks
from tnt_keras.keras_hooks.patch import replaced

NUM_FEATURES = 10
KERAS_WRITES_SHARDS = "max_shard_size" in inspect.signature(keras.Model.save_weights).parameters
"""Since Keras 3.10."""


@keras.saving.register_keras_serializable("mine")
class Registered(keras.Model):
    """A subclassed model with a distributed or plain model in it."""

    def __init__(self, inner: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.inner = inner

    def build(self, input_shape: Any) -> None:
        self.inner.build(input_shape)

    def call(self, inputs: Any) -> Any:
        return self.inner(inputs)

    def get_config(self) -> dict[str, Any]:
        inner = keras.saving.serialize_keras_object(self.inner)
        return {**super().get_config(), "inner": inner}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        return cls(**{**config, "inner": keras.saving.deserialize_keras_object(config["inner"])})


def _unknown_model() -> Any:
    """A model that no module has the class of, so that `custom_objects` alone could load it."""

    class Unknown(keras.Model):
        def call(self, inputs: Any) -> Any:
            return inputs

    return Unknown()


def _fit(model: Any, first: int, last: int) -> list[float]:
    x, y = samples()
    fitted = {"batch_size": 5, "shuffle": False, "verbose": 0}
    return model.fit(x, y, initial_epoch=first, epochs=last, **fitted).history["loss"]


def _adam_classifier(distributed: bool) -> Any:
    return classifier(distributed, optimizer=keras.optimizers.Adam(1e-2))


def _state_of(model: Any) -> dict[str, Any]:
    return {
        "weights": [np.asarray(w) for w in model.get_weights()],
        "iterations": int(model.optimizer.iterations),
        "optimizer": [np.asarray(variable) for variable in model.optimizer.variables],
    }


def train_without_stop() -> dict[str, Any]:
    """Trains 4 epochs of plain Keras."""
    model = _adam_classifier(False)
    return {"losses": _fit(model, 0, 4), **_state_of(model)}


def train_and_save(path: str) -> list[float]:
    """Trains the first 2 epochs on all ranks, and saves."""
    model = _adam_classifier(True)
    losses = _fit(model, 0, 2)
    models.save_model(model, path)
    return losses


def load_and_go_on(path: str) -> dict[str, Any]:
    """Loads what some ranks have saved, and trains 2 more epochs."""
    model = models.load_model(path)
    assert isinstance(model, tnt_keras.Model)
    return {"losses": _fit(model, 2, 4), **_state_of(model)}


@contextlib.contextmanager
def _folder_of_this_rank(folder: str) -> Iterator[pathlib.Path]:
    before = os.getcwd()
    own = pathlib.Path(folder) / str(tnt_keras.get_rank())
    own.mkdir()
    os.chdir(own)
    try:
        yield own
    finally:
        os.chdir(before)


def load_what_the_master_sees(folder: str) -> dict[str, Any]:
    """Save and load by names that lead to a file on the master alone; whether all is there."""
    model = _adam_classifier(True)
    _fit(model, 0, 1)
    expected = _state_of(model)
    loaded = {}
    in_pieces = replaced(files_of_ranks, "_PIECE_BYTES", 1000)
    with _folder_of_this_rank(folder) as own, in_pieces:
        model.save("m.keras")
        loaded["m.keras"] = _are_equal(_state_of(models.load_model("m.keras")), expected)
        for name, options in {"m.h5": {}, "folder": {"zipped": False}}.items():
            # Keras does not restore all of the optimizer from these.
            model.save(name, **options)
            loaded[name] = _are_equal(models.load_model(name).get_weights(), expected["weights"])
        weights = {"m.weights.h5": {}}
        if KERAS_WRITES_SHARDS:
            # 500 bytes: Keras 3.10 cannot read a layer that is divided into two files.
            weights["shards.weights.json"] = {"max_shard_size": 5e-7}
        for name, options in weights.items():
            model.save_weights(name, **options)
            other = _adam_classifier(True)
            other.set_weights([0 * weight for weight in other.get_weights()])
            other.load_weights(name)
            loaded[name] = _are_equal(other.get_weights(), expected["weights"])
        files = sorted(path.name for path in own.iterdir())
    return {"loaded": loaded, "files": files}


def load_files_of_different_names(folder: str) -> bool:
    """Whether weights of the master count, where each rank gives a file of its own."""
    model = _adam_classifier(True)
    path = f"{folder}/{tnt_keras.get_rank()}.weights.h5"
    model.set_weights([w + tnt_keras.get_rank() for w in model.get_weights()])
    model.save_weights(path, tnt_save_all_devices=True)
    model.load_weights(path)
    first = _adam_classifier(False)
    return all(map(np.array_equal, model.get_weights(), first.get_weights()))


def fail_to_load(folder: str) -> dict[str, tuple[str, str]]:
    """Errors of files that are missing on the master, hold no model or an unknown one."""
    errors = {}

    def note(name: str, load: Callable[[str], Any]) -> None:
        try:
            load(name)
        except Exception as error:
            errors[f"{load.__name__}({name})"] = (type(error).__name__, str(error))

    with _folder_of_this_rank(folder):
        unknown = tnt_keras.Model(_unknown_model())
        unknown.build((None, 3))
        unknown.save("unknown.keras")
        if tnt_keras.is_master_rank():
            pathlib.Path("garbage.keras").write_bytes(b"no model")
            pathlib.Path("garbage.weights.json").write_text(
                json.dumps({"weight_map": {"a": "../b"}})
            )
        else:
            classifier(False).save("missing.keras")
            classifier(False).save_weights("missing.weights.h5")
        for name in ("missing.keras", "garbage.keras", "unknown.keras"):
            note(name, models.load_model)
        model = classifier(True)
        for name in ("missing.weights.h5", "garbage.weights.json"):
            note(name, model.load_weights)
    return errors


def fail_to_copy(folder: str) -> tuple[str, str]:
    """The error where a rank that does not see the file cannot write a copy of it."""
    model = classifier(True)
    with _folder_of_this_rank(folder):
        model.save_weights("m.weights.h5")
        nowhere = None if tnt_keras.is_master_rank() else "/nowhere"
        try:
            with replaced(tempfile, "tempdir", nowhere):
                model.load_weights("m.weights.h5")
        except FileNotFoundError as error:  # that of the other rank is one, too
            return type(error).__name__, str(error)
    return "", "no error"


def describe_kinds(folder: str) -> dict[str, dict[str, Any]]:
    """Whether descriptions, files and copies of models are plain, whose optimizers are not."""
    described = {}
    for kind in ("nested", "registered"):
        plain, model = (_kind(kind, wrap) for wrap in (lambda m: m, tnt_keras.Model))
        _fit(model, 0, 1)
        path = f"{folder}/{kind}.keras"
        model.save(path)
        loaded = keras.models.load_model(path)
        unpickled = pickle.loads(pickle.dumps(model))
        optimizers = [type(each.optimizer) for each in (plain, loaded, unpickled)]
        described[kind] = {
            "config": model.get_config() == plain.get_config(),
            "json": model.to_json() == plain.to_json(),
            "compile_config": model.get_compile_config() == plain.get_compile_config(),
            "loaded": type(loaded) is type(unpickled) is type(plain),
            "optimizer": optimizers == [keras.optimizers.Adam] * 3,
            "state": _are_equal(_state_of(loaded), _state_of(model)),
            "copied state": _are_equal(_state_of(unpickled), _state_of(model)),
            "clone": isinstance(models.clone_model(model), tnt_keras.Model),
        }
    return described


def _kind(kind: str, wrap: Callable[[Any], Any]) -> Any:
    keras.backend.clear_session()
    keras.utils.set_random_seed(5)
    inputs = keras.Input((NUM_FEATURES,))
    inner = wrap(keras.Model(inputs, keras.layers.Dense(6, activation="tanh")(inputs)))
    if kind == "registered":
        head = keras.layers.Dense(3, activation="softmax")(inner.output)
        model = Registered(wrap(keras.Model(inner.input, head)))
        model.build((None, NUM_FEATURES))
    else:
        outer = keras.Input((NUM_FEATURES,))
        model = keras.Model(outer, keras.layers.Dense(3, activation="softmax")(inner(outer)))
    model = wrap(model)
    model.compile(keras.optimizers.Adam(1e-2), keras.losses.SparseCategoricalCrossentropy())
    return model


def _are_equal(first: Any, second: Any) -> bool:
    flat, other = (tf.nest.flatten(state) for state in (first, second))
    return len(flat) == len(other) and all(map(np.array_equal, flat, other))


def quantize_and_adapt(folder: str, distributed: bool) -> dict[str, Any]:
    """Trains with LoRA, enabled before and after wrapping, saves, and predicts after `quantize`."""
    results: dict[str, Any] = {}
    x, _ = samples()
    for when in ("before", "after"):
        keras.utils.set_random_seed(11)
        model = keras.Sequential(
            [keras.Input((NUM_FEATURES,)), keras.layers.Dense(8), keras.layers.Dense(3)]
        )
        if when == "before":
            model.layers[0].enable_lora(2)
        if distributed:
            model = tnt_keras.Model(model)
        if when == "after":
            model.layers[0].enable_lora(2)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.Adam(1e-2), loss)
        losses = _fit(model, 0, 2)
        trained = model.predict(x, verbose=0)
        path = f"{folder}/{when}.keras"
        model.save(path)
        loaded = models.load_model(path) if distributed else keras.models.load_model(path)
        results[when] = {
            "losses": losses,
            "trained": trained,
            "loaded": loaded.predict(x, verbose=0),
            "lora": [layer.lora_enabled for layer in loaded.layers],
            "trainable": len(model.trainable_weights),
        }
    model.quantize("int8")
    results["after"]["quantized"] = model.predict(x, verbose=0)
    return results
