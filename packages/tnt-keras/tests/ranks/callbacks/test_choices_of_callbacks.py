"""Callbacks of Keras do what they do in serial runs; wrapped ones run where they are told to."""

from __future__ import annotations

import csv
import pathlib
from typing import Any

import callbacks_on_ranks
import keras
import numpy as np
import pytest
import tensorflow as tf
from callbacks_on_ranks import BATCH_SIZE, VALIDATION
from cases import cases
from classifiers import NUM_SAMPLES, samples

of_all_sizes = cases("size", [2], thorough=[3])
OF_KERAS = [
    "BackupAndRestore",
    "CSVLogger",
    "EarlyStopping",
    "History",
    "LambdaCallback",
    "LearningRateScheduler",
    "ModelCheckpoint",
    "ProgbarLogger",
    "ReduceLROnPlateau",
    "RemoteMonitor",
    "SwapEMAWeights",
    "TerminateOnNaN",
]


OTHERS = {
    "Callback": "the base of all",
    "CallbackList": "in test_callbacks_of_one_rank.py",
    "OrbaxCheckpoint": "needs a package; that it runs on the master is in test_callbacks.py",
    "TensorBoard": "below",
}


def test_every_callback_of_keras_is_tested() -> None:
    names = {name for name in dir(keras.callbacks) if name[0].isupper()}
    assert names <= {*OF_KERAS, *OTHERS}  # older versions have fewer


@pytest.mark.thorough  # those that stop, save and log also in test_behaviour and below
@pytest.mark.parametrize("name", OF_KERAS)
def test_callbacks_of_keras_do_what_they_do_in_a_serial_run(
    name: str, pool_of: Any, tmp_path: pathlib.Path
) -> None:
    for folder in ("serial", "ranks"):
        (tmp_path / folder).mkdir()
    [expected] = pool_of(1).run(
        callbacks_on_ranks.with_callback, name, str(tmp_path / "serial"), False
    )
    results = pool_of(2).run(callbacks_on_ranks.with_callback, name, str(tmp_path / "ranks"), True)
    for rank, result in enumerate(results):
        assert result["history"].keys() == expected["history"].keys()
        for key, values in expected["history"].items():
            np.testing.assert_allclose(result["history"][key], values, rtol=0, atol=1e-5)
        for actual, wanted in zip(result["weights"], expected["weights"], strict=True):
            np.testing.assert_allclose(actual, wanted, rtol=0, atol=1e-5)
        assert result["files"] == expected["files"]
        is_sent_once = name == "RemoteMonitor" and rank > 0
        assert result["sent"] == ([] if is_sent_once else expected["sent"])


def _rows(rank: int, size: int, num_samples: int) -> list[list[int]]:
    """The samples of a rank in each batch."""
    begins = range(0, num_samples, BATCH_SIZE)
    batches = [range(begin, min(begin + BATCH_SIZE, num_samples)) for begin in begins]
    return [list(batch)[rank::size] for batch in batches]


def _joined(batches: list[list[int]]) -> list[int]:
    return [row for batch in batches for row in batch]


def _expected(outputs: np.ndarray, rows: list[int]) -> dict[str, float]:
    labels = samples()[1]
    losses = [-np.log(outputs[row, labels[row]]) for row in rows]
    hits = [np.argmax(outputs[row]) == labels[row] for row in rows]
    return {"loss": np.mean(losses), "accuracy": np.mean(hits)}


@of_all_sizes
@cases(
    ("kind", "eager", "again"),
    [("metrics", False, False)],
    thorough=[("metrics", False, True), ("plain log", False, False), ("plain log", True, False)],
)
def test_own_logs_are_those_of_the_samples_of_the_rank(
    kind: str, eager: bool, again: bool, size: int, pool_of: Any
) -> None:
    of_ranks = pool_of(size).run(callbacks_on_ranks.own_logs, kind, eager, again)
    num_validated = len(range(NUM_SAMPLES)[VALIDATION])
    for rank, (own, common, outputs) in enumerate(of_ranks):
        batches = _rows(rank, size, NUM_SAMPLES)
        validated = _joined(_rows(rank, size, num_validated))
        for step, logs in enumerate(own["train batch"]):
            so_far = _joined(batches[: step % len(batches) + 1])
            _assert_close(logs, _expected(outputs, so_far))
            if kind == "plain log":  # no result of a metric: it stays that of the batch
                rows = _rows(0, 1, NUM_SAMPLES)[step % len(batches)]
                np.testing.assert_allclose(logs["mean"], samples()[0][rows].mean(), atol=1e-5)
        assert len(own["train batch"]) == 2 * len(batches)
        for logs in own["test"]:
            _assert_close(logs, _expected(outputs, validated))
        for logs in own["epoch"]:
            _assert_close(logs, _expected(outputs, _joined(batches)))
            of_validation = {f"val_{k}": v for k, v in _expected(outputs, validated).items()}
            _assert_close(logs, of_validation)
        for logs in common["epoch"]:
            _assert_close(logs, _expected(outputs, list(range(NUM_SAMPLES))))
        assert len(own["epoch"]) == len(common["epoch"]) == len(own["test"]) == 2


def _assert_close(logs: dict[str, float], expected: dict[str, float]) -> None:
    for key, value in expected.items():
        np.testing.assert_allclose(logs[key], value, rtol=0, atol=1e-5, err_msg=key)


@pytest.mark.thorough
@pytest.mark.parametrize("steps_per_execution", [1, 2])
def test_time_history_measures_on_the_master_with_its_own_logs(
    steps_per_execution: int, pool_of: Any
) -> None:
    master, other = pool_of(2).run(callbacks_on_ranks.time_history, steps_per_execution)
    num_batches, num_epochs, logs = master
    assert num_batches == 2 * -(-5 // steps_per_execution)
    assert num_epochs == len(logs) == 2
    assert all(set(each) == {"accuracy", "loss"} for each in logs)
    assert other == (0, 0, [])


@of_all_sizes
def test_callbacks_run_on_the_ranks_of_the_rule(size: int, pool_of: Any) -> None:
    on_all = {"plain", "wrapped", "registered, wrapped"}
    for rank, runs in enumerate(pool_of(size).run(callbacks_on_ranks.where_they_run)):
        assert {name for name, here in runs.items() if here} == (on_all if rank else set(runs))


def test_global_logs_are_written_once_and_own_ones_by_each_rank(
    pool_of: Any, tmp_path: pathlib.Path
) -> None:
    for folder in ("serial", "ranks"):
        (tmp_path / folder).mkdir()
    pool_of(1).run(callbacks_on_ranks.csv_files, str(tmp_path / "serial"), False)
    pool_of(2).run(callbacks_on_ranks.csv_files, str(tmp_path / "ranks"), True)
    expected = _table(tmp_path / "serial/subclass.csv")
    assert len(expected) == 3
    for name in ("subclass.csv", "wrapped.csv"):
        np.testing.assert_allclose(_table(tmp_path / "ranks" / name), expected, atol=1e-5)
    of_ranks = [_table(tmp_path / f"ranks/rank_{rank}.csv") for rank in range(2)]
    assert not np.allclose(of_ranks[0], of_ranks[1], atol=1e-3)
    # 21 samples in batches of 5: 3 + 3 + 3 + 3 + 1 and 2 + 2 + 2 + 2 of them.
    weighted = (13 * np.array(of_ranks[0]) + 8 * np.array(of_ranks[1])) / 21
    np.testing.assert_allclose(weighted, expected, atol=1e-5)


def _table(path: pathlib.Path) -> list[list[float]]:
    """The rows of a file without those columns that are for a validation."""
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return [[float(row[key]) for key in ("accuracy", "loss")] for row in rows]


def test_a_callback_of_the_master_saves_without_the_others(
    pool_of: Any, tmp_path: pathlib.Path
) -> None:
    for files in pool_of(2).run(callbacks_on_ranks.saved_by_the_master, str(tmp_path)):
        assert files == ["0.keras", "0.weights.h5", "1.keras", "1.weights.h5", "best.keras"]


def test_a_checkpoint_goes_into_a_folder_that_all_ranks_make(
    pool_of: Any, tmp_path: pathlib.Path
) -> None:
    for files in pool_of(2).run(callbacks_on_ranks.saved_into_a_new_folder, str(tmp_path)):
        assert files == ["1.keras"]


def test_a_callback_of_the_master_that_predicts_is_an_error_of_all(pool_of: Any) -> None:
    master, other = pool_of(2).run(callbacks_on_ranks.predicting_on_the_master)
    assert master.startswith("Rank 0: `predict` needs all ranks, but Predict, which calls it,")
    assert "rank 0: RuntimeError: " + master in other


def test_ranks_go_on_after_a_file_that_callbacks_cannot_load_on_one_rank(
    pool_of: Any, tmp_path: pathlib.Path
) -> None:
    assert pool_of(2).run(
        callbacks_on_ranks.loading_what_the_master_does_not_have, str(tmp_path)
    ) == [
        ("FileNotFoundError", ["goes on"] * 2),
        ("FileNotFoundError", ["goes on"] * 2),
    ]


def _scalars(folder: pathlib.Path) -> dict[str, list[float]]:
    """The values of all files for TensorBoard in a folder, by folder of the file and tag."""
    found: dict[str, list[tuple[float, float]]] = {}
    for path in folder.rglob("events.*"):
        for record in tf.data.TFRecordDataset(str(path)):
            event = tf.compat.v1.Event.FromString(record.numpy())
            for value in event.summary.value:
                tensor = tf.make_ndarray(value.tensor)
                if tensor.dtype == np.float32 and tensor.ndim == 0:
                    tag = f"{path.parent.relative_to(folder)}/{value.tag}"
                    found.setdefault(tag, []).append((event.wall_time, float(tensor)))
    # Names of files tell no order: they end with a counter.
    return {tag: [value for _, value in sorted(values)] for tag, values in found.items()}


@cases(
    ("wanted", "wrapper", "on_all", "warns"),
    [(False, True, True, True)],
    thorough=[
        (None, None, False, False),
        (False, None, False, False),
        (True, None, True, False),
        (None, True, True, False),
        (None, False, False, False),
        (True, False, False, True),
    ],
)
def test_tensorboard_writes_what_it_writes_in_a_serial_run(
    wanted: Any, wrapper: Any, on_all: bool, warns: bool, pool_of: Any, tmp_path: pathlib.Path
) -> None:
    run = callbacks_on_ranks.tensorboard
    pool_of(1).run(run, str(tmp_path / "serial"), False)
    of_ranks = pool_of(2).run(run, str(tmp_path / "ranks"), True, wanted, wrapper)
    expected = _scalars(tmp_path / "serial")
    assert {"train/epoch_loss", "train/batch_loss", "validation/epoch_loss"} <= set(expected)
    folders = ["ranks/rank_0", "ranks/rank_1"] if on_all else ["ranks"]
    for folder in folders:
        written = _scalars(tmp_path / folder)
        assert written.keys() == expected.keys()
        for tag, values in expected.items():
            np.testing.assert_allclose(written[tag], values, rtol=0, atol=1e-5, err_msg=tag)
        names = [path.name for path in (tmp_path / folder / "train").iterdir()]
        assert "keras_embedding.ckpt-0.weights.h5" in names
        assert not [name for name in names if name.startswith(".")]
    assert sorted(path.name for path in (tmp_path / "ranks").iterdir()) == (
        ["rank_0", "rank_1"]
        if on_all
        else sorted(path.name for path in (tmp_path / "serial").iterdir())
    )
    assert [bool(messages) for messages in of_ranks] == [warns, warns]
