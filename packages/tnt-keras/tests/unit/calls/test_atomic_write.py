"""Files of a user's own that have, or share, the name of what is written are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import tnt_keras
from tnt_keras.calls.files import write_here

pytestmark = [
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),  # Keras'
    pytest.mark.filterwarnings("ignore:You are saving your model as an HDF5 file:UserWarning"),
]


@pytest.fixture
def model() -> Any:
    plain = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    return tnt_keras.Model(plain)


@pytest.mark.parametrize("name", ["model.keras", "model.h5", "model.weights.h5"])
def test_a_folder_with_the_name_of_a_file_is_kept_and_named(
    name: str, model: Any, tmp_path: Path
) -> None:
    own = tmp_path / name / "thesis.txt"
    own.parent.mkdir()
    own.write_text("mine")
    save = model.save_weights if "weights" in name else model.save
    with pytest.raises(IsADirectoryError, match=rf"a folder with the name.*{name}"):
        save(tmp_path / name)
    assert own.read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("is_export", [False, True])
def test_other_files_of_a_folder_stay_beside_a_model(
    is_export: bool, model: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "results"
    own = folder / "variables" / "thesis.txt"
    own.parent.mkdir(parents=True)
    own.write_text("mine")
    for value in (1.0, 2.0):  # the second time, files of the first are replaced
        model.set_weights([np.full(weight.shape, value) for weight in model.weights])
        if is_export:
            model.export(folder, verbose=False)
        else:
            model.save(folder, zipped=False)
    assert own.read_text() == "mine"
    if not is_export:
        loaded = keras.models.load_model(folder)
        assert all((weight == 2.0).all() for weight in loaded.get_weights())
    assert [path.name for path in tmp_path.iterdir()] == ["results"]


def test_a_folder_of_what_is_written_again_is_replaced_as_a_whole(tmp_path: Path) -> None:
    def write(path: Path) -> None:
        path.mkdir()
        (path / "part").write_text("new")

    folder = tmp_path / "model"
    for _ in range(2):
        write_here(folder, write, overwrite=True, makes_folders=False)
        assert (folder / "part").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_nothing_is_moved_if_something_cannot_be(tmp_path: Path) -> None:
    def write(path: Path) -> None:
        path.write_text("new")
        (path.parent / "shard").write_text("new")

    (tmp_path / "model").mkdir()
    with pytest.raises(IsADirectoryError):
        write_here(tmp_path / "model", write, overwrite=True, makes_folders=False)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
