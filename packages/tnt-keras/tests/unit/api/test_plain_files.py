"""Files, descriptions and copies of a distributed model are those of the plain one."""

from __future__ import annotations

import copy
import io
import json
import pathlib
import pickle
import re
import zipfile
from collections.abc import Callable
from typing import Any

import h5py
import keras
import kinds_of_models
import numpy as np
import pytest
import tensorflow as tf
from cases import cases
from kinds_of_models import KINDS, NUM_FEATURES

import tnt_keras

# What Keras itself warns about: optimizers without state, layers that cannot be quantized.
pytestmark = [
    # Keras 3 hands variables to numpy in a way that numpy 2 warns about.
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Skipping variable loading:UserWarning"),
    pytest.mark.filterwarnings("ignore:Layer .* does not have a `quantize`:UserWarning"),
]
X = np.linspace(-1, 1, 6 * NUM_FEATURES).reshape(6, NUM_FEATURES).astype("float32")


def _values(tensors: Any) -> list[Any]:
    return [np.asarray(tensor).tolist() for tensor in tf.nest.flatten(tensors)]


def _facts(model: Any) -> dict[str, Any]:
    """What a model is, to compare; no distributed model is the same as a plain one."""
    return {
        "class": type(model),
        "config": model.get_config(),
        "weights": [weight.tolist() for weight in model.get_weights()],
        "compiled": model.compiled and model.get_compile_config(),
        "iterations": int(model.optimizer.iterations) if model.compiled else None,
    }


def _contents(path: pathlib.Path) -> Any:
    """The description in a `.keras` file, without the addresses that Keras writes into it."""
    text = zipfile.ZipFile(path).read("config.json").decode()
    return json.loads(re.sub(r'"shared_object_id": \d+', '"shared_object_id": 0', text))


def _groups(path: pathlib.Path) -> list[str]:
    names: list[str] = []
    with h5py.File(path) as file:
        file.visit(names.append)
    return names


def _loaded(path: pathlib.Path) -> dict[str, Any]:
    return _facts(keras.models.load_model(path, kinds_of_models.CUSTOM_OBJECTS))


def _clone(model: Any, _: pathlib.Path) -> Any:
    return {**_facts(keras.models.clone_model(model)), "weights": None}


def _from_config(model: Any, _: pathlib.Path) -> Any:
    return {**_facts(type(model).from_config(model.get_config())), "weights": None}


def _summary(model: Any, _: pathlib.Path) -> str:
    lines = io.StringIO()
    model.summary(print_fn=lambda line: lines.write(line))
    return lines.getvalue()


def _keras_file(model: Any, folder: pathlib.Path) -> Any:
    model.save(folder / "model.keras")
    return _contents(folder / "model.keras"), _loaded(folder / "model.keras")


def _keras_folder(model: Any, folder: pathlib.Path) -> Any:
    model.save(folder / "model", zipped=False)
    files = sorted(path.name for path in (folder / "model").iterdir())
    return files, _loaded(folder / "model")


def _file_of_keras_function(model: Any, folder: pathlib.Path) -> Any:
    keras.saving.save_model(model, folder / "model.keras")
    return _contents(folder / "model.keras")


def _weights_file(model: Any, folder: pathlib.Path) -> Any:
    path = folder / "model.weights.h5"
    model.save_weights(path)
    weights = model.get_weights()
    model.set_weights([weight + 1 for weight in weights])
    model.load_weights(path)
    assert all(map(np.array_equal, model.get_weights(), weights))
    return _groups(path), [weight.tolist() for weight in weights]


def _exported(model: Any, folder: pathlib.Path) -> Any:
    model.export(folder / "exported", verbose=False)
    loaded = tf.saved_model.load(str(folder / "exported"))
    return _values(loaded.serve(X))


def _quantized(model: Any, folder: pathlib.Path) -> Any:
    model.quantize("int8")
    model.save(folder / "model.keras")
    return _values(model.predict(X, verbose=0)), _contents(folder / "model.keras")


VIEWS: dict[str, Callable[[Any, pathlib.Path], Any]] = {
    "get_config": lambda model, _: model.get_config(),
    "to_json": lambda model, _: model.to_json(),
    "serialize_keras_object": lambda model, _: keras.saving.serialize_keras_object(model),
    "get_compile_config": lambda model, _: model.get_compile_config(),
    "clone_model": _clone,
    "from_config": _from_config,
    "summary": _summary,
    "pickle": lambda model, _: _facts(pickle.loads(pickle.dumps(model))),
    "deepcopy": lambda model, _: _facts(copy.deepcopy(model)),
    "copy": lambda model, _: _facts(copy.copy(model)),
    ".keras": _keras_file,
    "zipped=False": _keras_folder,
    "keras.saving.save_model": _file_of_keras_function,
    ".weights.h5": _weights_file,
    "export": _exported,
    "quantize": _quantized,  # changes the model, so it comes last
}


def _seen(kind: str, wrap: Callable[[Any], Any], folder: pathlib.Path) -> dict[str, Any]:
    """What the views show of one model."""
    folder.mkdir()
    model = kinds_of_models.make(kind, wrap)
    seen = {}
    with keras.saving.custom_object_scope(kinds_of_models.CUSTOM_OBJECTS):
        for name, view in VIEWS.items():
            (folder / name).mkdir()
            seen[name] = view(model, folder / name)
    return seen


USUAL = ["nested"]


@cases("kind", [k for k in KINDS if k in USUAL], thorough=KINDS)
def test_what_keras_says_writes_and_copies_is_that_of_the_plain_model(
    kind: str, tmp_path: pathlib.Path
) -> None:
    plain = _seen(kind, lambda model: model, tmp_path / "plain")
    distributed = _seen(kind, tnt_keras.Model, tmp_path / "distributed")
    for name, shown in plain.items():
        assert distributed[name] == shown, name
