"""The file of `TNT_STEP_HASHES`: what runs can be compared by."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tnt_keras.process.step_hashes import FORMAT, StepHashes


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def variables() -> list[tf.Variable]:
    """Gives two variables."""
    return [tf.Variable([1.0, 2.0], name="kernel"), tf.Variable(3, name="count")]


def test_a_step_lists_what_it_has_changed(tmp_path: Path, variables: list[tf.Variable]) -> None:
    path = tmp_path / "hashes"
    file = StepHashes(str(path))
    file.record("train_step", "model", {"loss": 0.5}, variables)
    variables[0].assign([1.0, 2.0000002])
    file.record("train_step", "model", {"loss": 0.25}, variables)
    file.record("predict_step", "model", [np.ones((2, 3)), None], variables)
    run, first, second, third = _lines(path)
    assert (run["kind"], run["format"], run["size"]) == ("run", FORMAT, 1)
    assert sorted(first["variables"]) == ["model: count:0", "model: kernel:0"]
    assert list(second["variables"]) == ["model: kernel:0"]
    assert second["variables"] != {n: first["variables"][n] for n in second["variables"]}
    assert [step["number"] for step in (first, second, third)] == [1, 2, 3]
    assert second["results"]["loss"]["value"] == 0.25
    assert list(third["results"]) == ["result"]
    assert third["variables"] == {}


def test_equal_values_have_equal_hashes_and_zeros_of_other_signs_have_not(tmp_path: Path) -> None:
    path = tmp_path / "hashes"
    file = StepHashes(str(path))
    for value in (np.zeros(2), tf.zeros(2, tf.float64), -np.zeros(2), np.zeros((2, 1))):
        file.record("predict_step", "model", value, [])
    hashes = [line["results"]["result"]["hash"] for line in _lines(path)[1:]]
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 3


def test_a_note_is_written_once(tmp_path: Path) -> None:
    path = tmp_path / "hashes"
    file = StepHashes(str(path))
    for text in ("one", "other", "one"):
        file.note("rank", text)
    assert [line["text"] for line in _lines(path)[1:]] == ["one", "other"]


def test_a_restart_goes_on_with_the_number_of_its_first_step(
    tmp_path: Path, variables: list[tf.Variable], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "hashes"
    first = StepHashes(str(path))
    for iterations in (1, 2, 3):
        first.record("train_step", "model", {"loss": 1.0}, variables, iterations)
    with path.open("a") as torn:
        torn.write('{"kind": "step", "num')
    monkeypatch.setenv("TNT_RESTART_COUNT", "1")
    again = StepHashes(str(path))
    again.record("train_step", "model", {"loss": 1.0}, variables, 3)  # from a backup after 2
    again.record("test_step", "model", {"loss": 1.0}, variables)
    numbers = [json.loads(line).get("number") for line in path.read_text().splitlines()[-2:]]
    assert numbers == [3, 4]


@pytest.mark.parametrize("name", ["", "missing/hashes"], ids=["a folder", "a missing folder"])
def test_a_file_that_cannot_be_written_is_refused_by_the_name_of_the_variable(
    tmp_path: Path, name: str
) -> None:
    with pytest.raises(OSError, match=r"TNT_STEP_HASHES=.*cannot be written.*Name a file"):
        StepHashes(str(tmp_path / name))
