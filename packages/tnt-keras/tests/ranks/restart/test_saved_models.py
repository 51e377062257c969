"""What ranks save, and what they load from files of the master alone, is that of the serial run."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
import saved_models
from cases import cases


def _assert_close(actual: list[Any], wanted: list[Any]) -> None:
    assert len(actual) == len(wanted)
    for a, b in zip(actual, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@cases(("saved_on", "sizes"), [(2, [3])], thorough=[(2, [1, 2, 3]), (3, [1, 2, 3])])
def test_going_on_at_any_size_is_not_having_stopped(
    saved_on: int, sizes: list[int], pool_of: Any, tmp_path: pathlib.Path
) -> None:
    path = str(tmp_path / "model.keras")
    [wanted] = pool_of(1).run(saved_models.train_without_stop)
    for losses in pool_of(saved_on).run(saved_models.train_and_save, path):
        _assert_close(losses, wanted["losses"][:2])
    for size in sizes:
        for result in pool_of(size).run(saved_models.load_and_go_on, path):
            assert result["iterations"] == wanted["iterations"] == 4 * 5
            for what in ("weights", "optimizer"):
                _assert_close(result[what], wanted[what])
            _assert_close(result["losses"], wanted["losses"][2:])


@cases("size", [2], thorough=[3])
def test_files_that_the_master_alone_sees_are_loaded_on_all_ranks(
    size: int, pool_of: Any, tmp_path: pathlib.Path
) -> None:
    master, *others = pool_of(size).run(saved_models.load_what_the_master_sees, str(tmp_path))
    for result in (master, *others):
        assert len(result["loaded"]) == (5 if saved_models.KERAS_WRITES_SHARDS else 4)
        assert all(result["loaded"].values()), result
    assert {"m.keras", "m.h5", "folder", "m.weights.h5"} <= set(master["files"])
    if saved_models.KERAS_WRITES_SHARDS:
        assert sum(name.startswith("shards") for name in master["files"]) > 2
    assert all(other["files"] == [] for other in others)


def test_the_file_of_the_master_counts_where_ranks_give_different_ones(
    pool_of: Any, tmp_path: pathlib.Path
) -> None:
    assert pool_of(2).run(saved_models.load_files_of_different_names, str(tmp_path)) == [True] * 2


def test_what_the_master_cannot_load_is_the_same_error_on_all_ranks(
    pool_of: Any, tmp_path: pathlib.Path
) -> None:
    master, *others = pool_of(2).run(saved_models.fail_to_load, str(tmp_path))
    kinds = {call: kind for call, (kind, _) in master.items()}
    assert kinds == {
        "load_model(missing.keras)": "ValueError",
        "load_model(garbage.keras)": "ValueError",
        "load_model(unknown.keras)": "TypeError",
        "load_weights(missing.weights.h5)": "FileNotFoundError",
        "load_weights(garbage.weights.json)": "ValueError",
    }
    for rank, errors in enumerate(others, start=1):
        for call, (kind, text) in errors.items():
            assert kind == kinds[call]
            assert f"Rank {rank}: rank 0 could not read" in text
            assert text.endswith(f"{master[call][1]} [other-rank-failed]")


def test_a_copy_that_cannot_be_written_is_an_error_on_all_ranks(
    pool_of: Any, tmp_path: pathlib.Path
) -> None:
    (kind, text), (own_kind, own_text) = pool_of(2).run(saved_models.fail_to_copy, str(tmp_path))
    assert kind == own_kind == "FileNotFoundError"
    assert "/nowhere" in own_text
    assert "Rank 0: rank 1 could not read m.weights.h5" in text


@pytest.mark.thorough
def test_descriptions_files_and_copies_are_plain_though_optimizers_are_not(
    pool_of: Any, tmp_path: pathlib.Path
) -> None:
    for described in pool_of(2).run(saved_models.describe_kinds, str(tmp_path)):
        for kind, facts in described.items():
            assert all(facts.values()), (kind, facts)


@pytest.mark.thorough
@cases("size", [2], thorough=[3])
def test_lora_and_quantized_models_are_those_of_the_serial_run(
    size: int, pool_of: Any, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "serial").mkdir()
    [wanted] = pool_of(1).run(saved_models.quantize_and_adapt, str(tmp_path / "serial"), False)
    for result in pool_of(size).run(saved_models.quantize_and_adapt, str(tmp_path), True):
        for when, facts in wanted.items():
            for what in ("lora", "trainable"):
                assert result[when][what] == facts[what]
            for what in facts.keys() - {"lora", "trainable"}:
                _assert_close(list(result[when][what]), list(facts[what]))
