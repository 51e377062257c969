"""`tnt.models` makes and reads distributed models, and writes plain ones."""

from __future__ import annotations

import inspect
import json
import pathlib
from typing import Any

import keras
import kinds_of_models
import numpy as np
import pytest
from cases import cases

import tnt_keras
from tnt_keras import models

pytestmark = [
    # Keras 3 hands variables to numpy in a way that numpy 2 warns about.
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),
    # A model that was not trained has an optimizer without state.
    pytest.mark.filterwarnings("ignore:Skipping variable loading:UserWarning"),
]


def _config(model: Any) -> Any:
    """The configuration, with lists instead of tuples: JSON knows none."""
    return json.loads(json.dumps(model.get_config()))


def _plain(kind: str) -> Any:
    return kinds_of_models.make(kind, lambda model: model)


@cases("wrap", [tnt_keras.Model], thorough=[lambda model: model])
def test_saved_and_loaded_models_are_distributed_and_the_same(
    wrap: Any, tmp_path: pathlib.Path
) -> None:
    model = kinds_of_models.make("nested", wrap)
    model.fit(np.ones((6, 4)), np.ones((6, 3)), verbose=0)
    models.save_model(model, tmp_path / "model.keras")
    loaded = models.load_model(tmp_path / "model.keras")
    assert isinstance(loaded, tnt_keras.Model)
    assert _config(loaded) == _config(model)
    assert all(map(np.array_equal, loaded.get_weights(), model.get_weights()))
    states = [[np.asarray(v) for v in m.optimizer.variables] for m in (loaded, model)]
    assert all(map(np.array_equal, *states))
    assert not isinstance(keras.models.load_model(tmp_path / "model.keras"), tnt_keras.Model)
    with pytest.raises(FileExistsError, match="overwrite=True"):
        models.save_model(model, tmp_path / "model.keras", overwrite=False)
    assert not models.load_model(tmp_path / "model.keras", compile=False).compiled


def test_custom_objects_are_handed_on(tmp_path: pathlib.Path) -> None:
    models.save_model(tnt_keras.Model(_plain("unregistered")), tmp_path / "model.keras")
    loaded = models.load_model(tmp_path / "model.keras", kinds_of_models.CUSTOM_OBJECTS)
    assert isinstance(loaded, kinds_of_models.Unregistered)
    assert isinstance(loaded, models.Model)


def test_a_missing_file_is_the_error_of_keras(tmp_path: pathlib.Path) -> None:
    for name in ("missing.keras", "missing.h5"):
        with pytest.raises((ValueError, OSError)) as of_keras:
            keras.models.load_model(tmp_path / name)
        with pytest.raises(of_keras.type, match=r"(?i)not found|no such file"):
            models.load_model(tmp_path / name)


@pytest.mark.parametrize("kind", ["functional", "sequential"])
def test_models_are_made_of_configurations_json_and_other_models(kind: str) -> None:
    model = _plain(kind)
    cls = models.Sequential if kind == "sequential" else models.Model
    serialized = keras.saving.serialize_keras_object(model)
    made = {
        "config": models.model_from_config(model.get_config()),
        "from_config": cls.from_config(model.get_config()),
        "serialized": models.model_from_config(serialized),
        "json": models.model_from_json(model.to_json()),
    }
    for name, each in made.items():
        assert isinstance(each, cls), name
        assert _config(each) == _config(model), name
        assert each.compiled == (name not in ("config", "from_config"))
    clone = models.clone_model(model)
    assert isinstance(clone, cls)
    assert clone.compiled == keras.models.clone_model(model).compiled  # not in Keras 3.8
    assert [w.shape for w in clone.weights] == [w.shape for w in model.weights]


@pytest.mark.parametrize("wrong", ["functional", {"units": 3}])
def test_what_is_no_configuration_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"^`config` must be .*Received: .*(functional|units)"):
        models.model_from_config(wrong)


@pytest.mark.parametrize("function", [models.clone_model, models.save_model])
def test_what_is_no_model_is_refused(function: Any) -> None:
    with pytest.raises(ValueError, match=r"^`model` must be a `keras.Model`\. Received: Dense\."):
        function(keras.layers.Dense(1), *["model.keras"][: function is models.save_model])


@pytest.mark.parametrize("name", ["load_model", "clone_model"])
def test_functions_have_the_signatures_of_keras(name: str) -> None:
    own = inspect.signature(getattr(models, name))
    assert own == inspect.signature(getattr(keras.models, name))


def test_sequential_is_made_of_its_layers() -> None:
    model = models.Sequential([keras.Input((4,)), keras.layers.Dense(3)], name="mine")
    assert isinstance(model, models.Sequential)
    assert isinstance(model, models.Model)
    assert isinstance(model, keras.Sequential)
    assert model.name == "mine"
    assert isinstance(tnt_keras.Model(keras.Sequential()), models.Sequential)
    assert not isinstance(tnt_keras.Model(_plain("functional")), models.Sequential)
    empty = models.Sequential()
    empty.add(keras.layers.Dense(2))
    empty.compile("sgd", "mse")
    empty.fit(np.ones((4, 3)), np.ones((4, 2)), verbose=0)
    assert empty.count_params() == 3 * 2 + 2


def test_layers_of_a_subclass_of_sequential_keep_their_methods() -> None:
    class Own(keras.Sequential):
        def call(self, inputs: Any, **kwargs: Any) -> Any:
            return 2 * super().call(inputs, **kwargs)

    model = tnt_keras.Model(Own([keras.Input((4,)), keras.layers.Dense(1)]))
    assert isinstance(model, models.Sequential)
    x = np.ones((2, 4))
    np.testing.assert_allclose(model(x), 2 * model.layers[0](x))
