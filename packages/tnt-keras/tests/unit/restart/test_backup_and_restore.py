"""`BackupAndRestore` on one rank: a `fit` that an error ends goes on in the next one."""

from __future__ import annotations

import collections
import functools
import logging
import pathlib
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from cases import cases
from classifiers import compiled, restarted

import tnt_keras

X = np.random.default_rng(1).normal(size=(12, 4)).astype("float32")
Y = X.sum(1, keepdims=True)
LATEST, PREVIOUS = "latest.tnt_backup", "previous.tnt_backup"


class _Fail(keras.callbacks.Callback):
    def __init__(self, step: int) -> None:
        super().__init__()
        self._remaining = step

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._remaining -= 1
        if self._remaining < 0:
            raise RuntimeError("stop here")


class _EverySecondEpoch(keras.callbacks.BackupAndRestore):
    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if epoch % 2:
            super().on_epoch_end(epoch, logs)


@functools.cache
def _maker(units: int, steps_per_execution: int) -> Any:
    def make(distributed: bool) -> Any:
        keras.utils.set_random_seed(3)
        layers = [keras.layers.Dense(units, "relu"), keras.layers.Dropout(0.5)]
        model = keras.Sequential([keras.Input((4,)), *layers, keras.layers.Dense(1)])
        arguments = {"optimizer": "adam", "loss": "mse", "steps_per_execution": steps_per_execution}
        return compiled(model, distributed, arguments)

    return make


def _model(units: int = 3, steps_per_execution: int = 1) -> Any:
    """A model as at the begin of a process; one object for all tests."""
    return restarted(_maker(units, steps_per_execution), True)


@functools.cache
def _undisturbed(epochs: int = 3) -> tuple[dict[str, Any], list[np.ndarray]]:
    """The history and the weights of a training without backup. Call it before `_model`."""
    model = _model()
    history = model.fit(X, Y, batch_size=4, epochs=epochs, verbose=0)
    return history.history, model.get_weights()


def _fit(model: Any, backup: Any, *others: Any, epochs: int = 3, **arguments: Any) -> Any:
    callbacks = [backup, *others]
    return model.fit(X, Y, batch_size=4, epochs=epochs, verbose=0, callbacks=callbacks, **arguments)


def _interrupt(model: Any, backup: Any, step: int) -> None:
    with pytest.raises(RuntimeError, match="stop here"):
        _fit(model, backup, _Fail(step))


@cases(
    ("cls", "save_freq"),
    [(keras.callbacks.BackupAndRestore, 2), (_EverySecondEpoch, "epoch")],
    thorough=[(keras.callbacks.BackupAndRestore, "epoch"), (_EverySecondEpoch, 2)],
)
def test_the_next_fit_goes_on_with_the_same_bits(
    cls: Any, save_freq: Any, tmp_path: pathlib.Path
) -> None:
    expected, weights = _undisturbed()
    model, folder = _model(), tmp_path / "new"
    _interrupt(model, cls(folder, save_freq), 7)
    assert (folder / LATEST).exists()
    actual = _fit(model, cls(folder, save_freq))
    assert actual.history == expected
    assert actual.epoch == [0, 1, 2]
    for one, other in zip(model.get_weights(), weights, strict=True):
        np.testing.assert_array_equal(one, other)
    assert not folder.exists()


def test_a_backup_that_is_kept_lets_a_longer_fit_go_on(tmp_path: pathlib.Path) -> None:
    expected, _ = _undisturbed(epochs=5)
    model = _model()
    _fit(model, keras.callbacks.BackupAndRestore(tmp_path, delete_checkpoint=False))
    history = _fit(model, keras.callbacks.BackupAndRestore(tmp_path), epochs=5)
    assert history.history == expected
    assert not tmp_path.exists()


def test_a_backup_from_beyond_the_last_epoch_is_kept(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = _model()
    backup = keras.callbacks.BackupAndRestore(tmp_path, save_freq=1)
    _interrupt(model, backup, 7)
    with caplog.at_level(logging.WARNING, "tnt_keras"):
        assert _fit(model, keras.callbacks.BackupAndRestore(tmp_path), epochs=2).epoch == [0, 1]
    assert "it is from epoch 3, and `fit` ends after epoch 2" in caplog.text
    history = _fit(model, keras.callbacks.BackupAndRestore(tmp_path), epochs=4)
    assert history.epoch == [0, 1, 2, 3]


def test_other_files_in_the_folder_stay(tmp_path: pathlib.Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    _fit(_model(), keras.callbacks.BackupAndRestore(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_what_a_killed_run_has_half_written_is_removed(tmp_path: pathlib.Path) -> None:
    (tmp_path / f".{LATEST}.xyz").mkdir()
    _fit(_model(), keras.callbacks.BackupAndRestore(tmp_path))
    assert not tmp_path.exists()


def test_a_damaged_backup_is_an_error(tmp_path: pathlib.Path) -> None:
    (tmp_path / LATEST).write_bytes(b"half")
    with pytest.raises(ValueError, match=r"damaged.*Remove the folder to start from"):
        _fit(_model(), keras.callbacks.BackupAndRestore(tmp_path))


def test_a_damaged_backup_falls_back_to_the_one_before(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    expected, _ = _undisturbed()
    model, latest = _model(), tmp_path / LATEST
    _interrupt(model, keras.callbacks.BackupAndRestore(tmp_path, 2, True), 7)
    latest.write_bytes(latest.read_bytes()[:999])
    with caplog.at_level(logging.WARNING):
        actual = _fit(model, keras.callbacks.BackupAndRestore(tmp_path, 2, True))
    assert PREVIOUS in caplog.text
    assert actual.history == expected


def test_a_backup_of_plain_keras_is_an_error(tmp_path: pathlib.Path) -> None:
    (tmp_path / "latest.weights.h5").write_bytes(b"")
    with pytest.raises(ValueError, match="written by plain Keras"):
        _fit(_model(), keras.callbacks.BackupAndRestore(tmp_path))


def test_another_model_is_an_error_that_names_the_variable(tmp_path: pathlib.Path) -> None:
    _interrupt(_model(), keras.callbacks.BackupAndRestore(tmp_path, 1), 2)
    with pytest.raises(ValueError, match=r"variable 0 is .*kernel.* of shape \(4, 3\).*\(4, 5\)"):
        _fit(_model(units=5), keras.callbacks.BackupAndRestore(tmp_path, 1))


def test_another_number_of_steps_per_execution_is_an_error(tmp_path: pathlib.Path) -> None:
    _interrupt(_model(), keras.callbacks.BackupAndRestore(tmp_path, 1), 2)
    with pytest.raises(ValueError, match="steps_per_execution=1, but it is 2 now"):
        _fit(_model(steps_per_execution=2), keras.callbacks.BackupAndRestore(tmp_path, 1))


def test_another_size_of_batches_is_an_error(tmp_path: pathlib.Path) -> None:
    _interrupt(_model(), keras.callbacks.BackupAndRestore(tmp_path, 1), 2)
    with pytest.raises(ValueError, match="with batches of 4 samples, but they have 5 now"):
        _model().fit(
            X, Y, batch_size=5, verbose=0, callbacks=[keras.callbacks.BackupAndRestore(tmp_path, 1)]
        )


class _Remembers(keras.callbacks.Callback):
    def __init__(self) -> None:
        super().__init__()
        self.losses = collections.deque(maxlen=2)
        self.mean = keras.metrics.Mean()
        self.counters = collections.deque([tf.Variable(0)])
        self.unchanged = collections.deque([1, keras.layers.Dense(1)])

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.losses.append(logs["loss"])
        self.mean.update_state(logs["loss"])
        self.counters[0].assign_add(1)


def test_what_a_callback_changes_in_an_object_that_is_not_held_is_named(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        _fit(_model(), keras.callbacks.BackupAndRestore(tmp_path, 1), _Remembers())
    named = [record.args[0] for record in caplog.records if "not a plain value" in record.msg]
    assert named == ["losses", "mean", "counters"]


class ManyParts(keras.Model):
    """Keeps an optimizer, a variable and a generator in containers."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(1)
        self.optimizers = [keras.optimizers.Adam(0.1)]
        self.parts = {
            "factors": [tf.Variable(1.0, trainable=False)],
            "generators": (tf.random.Generator.from_seed(3),),
        }

    def call(self, x: Any) -> Any:
        return self.dense(x)

    def train_step(self, data: Any) -> Any:
        x, y = data
        [factor], [generator] = self.parts["factors"], self.parts["generators"]
        factor.assign(0.9 * factor)
        with tf.GradientTape() as tape:
            loss = factor * generator.uniform([]) * tf.reduce_mean((self(x) - y) ** 2)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizers[0].apply(gradients, self.trainable_variables)
        return {"loss": loss}


def test_what_a_model_keeps_in_lists_and_dictionaries_is_held_too(tmp_path: pathlib.Path) -> None:
    def made() -> keras.Model:
        keras.utils.set_random_seed(1)
        model = tnt_keras.Model(ManyParts())
        model.compile()
        return model

    expected = _fit(made(), keras.callbacks.BackupAndRestore(tmp_path / "whole"))
    _interrupt(made(), keras.callbacks.BackupAndRestore(tmp_path / "parts", 1), 4)
    actual = _fit(made(), keras.callbacks.BackupAndRestore(tmp_path / "parts", 1))
    assert actual.history == expected.history


def test_a_backup_of_a_later_fit_is_an_error(tmp_path: pathlib.Path) -> None:
    model = _model()
    model.fit(X, Y, verbose=0)
    _interrupt(model, keras.callbacks.BackupAndRestore(tmp_path, 1), 2)
    with pytest.raises(ValueError, match=r"is from call number 2 of `fit`.*this is call number 1"):
        _fit(_model(), keras.callbacks.BackupAndRestore(tmp_path, 1))


def test_callbacks_may_be_left_out_and_new_ones_begin_anew(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = _model()
    _interrupt(model, keras.callbacks.BackupAndRestore(tmp_path, 1), 4)
    with caplog.at_level(logging.WARNING):
        new = keras.callbacks.TerminateOnNaN()
        history = _fit(model, keras.callbacks.BackupAndRestore(tmp_path, 1), new)
    assert history.epoch == [0, 1, 2]
    ours = [record.args for record in caplog.records if record.name == "tnt_keras"]
    assert ours == [("TerminateOnNaN",)]


def test_two_backups_are_an_error(tmp_path: pathlib.Path) -> None:
    backup = keras.callbacks.BackupAndRestore(tmp_path)
    with pytest.raises(ValueError, match="one `BackupAndRestore`"):
        _fit(_model(), backup, tnt_keras.callbacks.Callback(backup))


def test_samples_that_another_process_reads_otherwise_are_told(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    dataset = tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(9).batch(4)
    model = _model()
    with caplog.at_level(logging.WARNING):
        model.fit(
            dataset,
            verbose=0,
            callbacks=[keras.callbacks.BackupAndRestore(tmp_path / "a")],
            tnt_distribute_dataset=False,
        )
    assert "shuffle(9) shuffles without a seed" in caplog.text
