"""Runs with callbacks: those of Keras, wrapped ones, and those that only write."""

from __future__ import annotations

import os
import pathlib
import sys
import time
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from behaviours import batches_of
from classifiers import classifier, restarted, results_of, samples

import tnt_keras
from tnt_keras.callbacks import Callback, run_on_master
from tnt_keras.keras_hooks.patch import replaced
from tnt_keras.process.rank import Settings, logger

BATCH_SIZE = 5
VALIDATION = slice(0, 7)


class Record(keras.callbacks.Callback):
    """Notes the logs of every hook that has some."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[str, list[dict[str, float]]] = {}

    def _note(self, hook: str, logs: Any) -> None:
        self.seen.setdefault(hook, []).append(dict(logs))

    def on_train_batch_end(self, batch: int, *, logs: Any = None) -> None:
        self._note("train batch", logs)  # Keras gives them by name

    def on_test_end(self, logs: Any = None) -> None:
        self._note("test", logs)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._note("epoch", logs)


class EvaluateBetween(keras.callbacks.Callback):
    """Evaluates on other data before later callbacks get the logs of the epoch."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.model.evaluate(*samples(4, seed=9), batch_size=2, verbose=0)


class TimeHistory(keras.callbacks.Callback):
    """Measures steps and epochs, as training scripts of TensorFlow's models do."""

    def __init__(self, batch_size: int) -> None:
        super().__init__()
        self.batch_size = batch_size
        self.batches: list[float] = []
        self.epochs: list[float] = []
        self.logs: list[dict[str, float]] = []

    def on_train_begin(self, logs: Any = None) -> None:
        self.record_after_training = self.params["epochs"]

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.epoch_start = time.perf_counter()

    def on_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.start = time.perf_counter()

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        self.batches.append(time.perf_counter() - self.start)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.epochs.append(time.perf_counter() - self.epoch_start)
        self.logs.append(dict(logs))


class WithPlainLog(keras.Model):
    """A model whose step returns the mean of its inputs, besides its metrics."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(3, activation="softmax")

    def call(self, inputs: Any) -> Any:
        return self.dense(inputs)

    def train_step(self, data: Any) -> Any:
        return super().train_step(data) | {"mean": tf.reduce_mean(data[0])}


def _still(make: Callable[[], Any]) -> Any:
    """The model with weights that do not move, so that losses can be computed by hand."""
    keras.utils.set_random_seed(11)
    model = tnt_keras.Model(make())
    loss = "sparse_categorical_crossentropy"
    model.compile(keras.optimizers.SGD(0.0), loss, metrics=["accuracy"])
    return model


def _functional() -> Any:
    return classifier(False)


def own_logs(
    kind: str, eager: bool, again: bool = False
) -> tuple[dict[str, Any], dict[str, Any], np.ndarray]:
    """What callbacks see, with own and with global logs, and the outputs for all samples."""
    make = WithPlainLog if kind == "plain log" else _functional
    model = _still(make)
    model.run_eagerly = eager
    x, y = samples()
    validation = (x[VALIDATION], y[VALIDATION])
    own, common = Record(), Record()
    if again:  # graphs without own logs are there already
        model.fit(batches_of(), validation_data=validation, verbose=0)
    model.fit(
        batches_of(BATCH_SIZE),
        validation_data=tf.data.Dataset.from_tensor_slices(validation).batch(BATCH_SIZE),
        epochs=2,
        verbose=0,
        callbacks=[EvaluateBetween(), Callback(own, aggregate_logs=False), Callback(common)],
    )
    return own.seen, common.seen, model.predict(x, verbose=0)


def time_history(steps_per_execution: int) -> tuple[int, int, list[dict[str, float]]]:
    """How many steps and epochs the seeds' callback has measured, and the logs that it got."""
    model = classifier(True, steps_per_execution=steps_per_execution)
    measure = TimeHistory(BATCH_SIZE)
    wrapped = tnt_keras.keras.callbacks.Callback(
        measure, aggregate_logs=False, run_on_all_ranks=False
    )
    model.fit(batches_of(), epochs=2, verbose=0, callbacks=[wrapped])
    return len(measure.batches), len(measure.epochs), measure.logs


def where_they_run() -> dict[str, bool]:
    """Whether callbacks of several classes run on this rank."""
    plain = type("Plain", (Record,), {})
    known = type("WandbMetricsLogger", (Record,), {"__module__": "wandb.integration.keras"})
    mine = run_on_master(type("Mine", (Record,), {}))
    given = {
        "plain": plain(),
        "wrapped": Callback(plain()),
        "wrapped for the master": Callback(plain(), run_on_all_ranks=False),
        "own logs of the master": Callback(plain(), aggregate_logs=False, run_on_all_ranks=False),
        "known logger": known(),
        "derived from a known logger": type("Derived", (known,), {})(),
        "registered": mine(),
        "registered, wrapped": Callback(mine()),
    }
    restarted(classifier, True).fit(batches_of(), verbose=0, callbacks=list(given.values()))
    return {
        name: bool((one.callback if isinstance(one, Callback) else one).seen)
        for name, one in given.items()
    }


def csv_files(folder: str, distributed: bool) -> None:
    """Writes one file by a subclass, one by a wrapped logger, and one for each rank."""

    class Own(keras.callbacks.CSVLogger):
        pass

    of_rank = keras.callbacks.CSVLogger(f"{folder}/rank_{tnt_keras.get_rank()}.csv")
    restarted(classifier, distributed).fit(
        batches_of(),
        epochs=3,
        verbose=0,
        callbacks=[
            Own(f"{folder}/subclass.csv"),
            Callback(keras.callbacks.CSVLogger(f"{folder}/wrapped.csv")),
            Callback(of_rank, aggregate_logs=False),
        ],
    )


def saved_by_the_master(folder: str) -> list[str]:
    """The files that a callback of the master alone writes of the model, in each epoch."""

    class Save(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.model.save(f"{folder}/{epoch}.keras")
            self.model.save_weights(f"{folder}/{epoch}.weights.h5")

    best = keras.callbacks.ModelCheckpoint(f"{folder}/best.keras", "loss", save_best_only=True)
    model = restarted(classifier, True)
    wrapped = [Callback(one, run_on_all_ranks=False) for one in (Save(), best)]
    model.fit(batches_of(), epochs=2, verbose=0, callbacks=wrapped)
    tnt_keras.Barrier().execute()
    x, _ = samples()
    loaded = keras.models.load_model(f"{folder}/1.keras")
    np.testing.assert_array_equal(loaded.predict(x, verbose=0), _predicted_plain(model, x))
    return sorted(path.name for path in pathlib.Path(folder).iterdir())


def saved_into_a_new_folder(folder: str) -> list[str]:
    """The files of a `ModelCheckpoint` whose folder all ranks want to make at the same time."""
    make_folder = os.makedirs

    def slowly(*args: Any, **kwargs: Any) -> None:
        time.sleep(0.3)  # as on a disk of a network: all ranks have seen that there is none
        make_folder(*args, **kwargs)

    checkpoint = keras.callbacks.ModelCheckpoint(f"{folder}/new/deep/{{epoch}}.keras")
    with replaced(os, "makedirs", slowly):
        restarted(classifier, True).fit(batches_of(), verbose=0, callbacks=[checkpoint])
    return sorted(path.name for path in pathlib.Path(folder, "new/deep").iterdir())


def _predicted_plain(model: Any, x: np.ndarray) -> np.ndarray:
    twin = classifier(False)
    twin.set_weights(model.get_weights())
    return twin.predict(x, verbose=0)


def predicting_on_the_master() -> str:
    """The error when a callback of the master alone predicts."""

    class Predict(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.model.predict(samples()[0], verbose=0)

    try:
        restarted(classifier, True).fit(
            batches_of(), verbose=0, callbacks=[Callback(Predict(), run_on_all_ranks=False)]
        )
    except RuntimeError as error:
        return str(error)
    return "no error"


def loading_what_the_master_does_not_have(folder: str) -> tuple[str, list[str]]:
    """The error of a callback that loads weights; afterwards ranks still know each other."""
    own = "missing" if tnt_keras.is_master_rank() else "other"

    class Load(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.model.load_weights(pathlib.Path(folder) / f"{own}.weights.h5")

    try:
        restarted(classifier, True).fit(
            batches_of(), verbose=0, callbacks=[Callback(Load(), run_on_all_ranks=True)]
        )
    except FileNotFoundError as error:
        return type(error).__name__, tnt_keras.allgather_object("goes on")
    return "no error", []


def tensorboard(
    folder: str, distributed: bool, wanted: bool | None = None, wrapper: Any = None
) -> list[str]:
    """Write files for TensorBoard, twice; return the warnings."""
    options = {"update_freq": "batch", "embeddings_freq": 1, "histogram_freq": 1}
    given = keras.callbacks.TensorBoard(folder, **options)
    if wrapper is not None:
        given = Callback(given, run_on_all_ranks=wrapper)
    messages: list[str] = []
    settings = Settings(tensorboard_on_all_ranks=wanted)
    keras.utils.set_random_seed(11)
    model = keras.Sequential(
        [keras.Input((4,)), keras.layers.Embedding(5, 2), keras.layers.Flatten()]
    )
    model.add(keras.layers.Dense(1))
    if distributed:
        model = tnt_keras.Model(model)
    model.compile("sgd", "mse")
    x, y = np.arange(40).reshape(10, 4) % 5, np.linspace(0, 1, 10)[:, np.newaxis]
    from tnt_keras.callbacks import ranks as module

    with (
        replaced(module, "settings", lambda: settings),
        replaced(logger, "warning", lambda text, *args: messages.append(text % args)),
    ):
        for _ in range(2):
            model.fit(x, y, 5, validation_data=(x, y), verbose=0, shuffle=False, callbacks=given)
    return messages


def with_callback(name: str, folder: str, distributed: bool) -> dict[str, Any]:
    """What a training with one callback of Keras has left behind, and what it sent or wrote."""
    sent: list[Any] = []
    x, y = samples()
    if name == "TerminateOnNaN":
        x = x.copy()
        x[11] = np.nan  # of one rank
    optimizer = keras.optimizers.SGD(0.1, use_ema=name == "SwapEMAWeights")
    model = classifier(distributed, optimizer=optimizer)
    callback = _callback(name, folder, sent)

    class Requests:
        class exceptions:
            RequestException = OSError

        @staticmethod
        def post(*args: Any, **kwargs: Any) -> None:
            sent.append(sorted(kwargs["json"]))

    module = sys.modules[keras.callbacks.RemoteMonitor.__module__]
    with replaced(module, "requests", Requests):
        history = model.fit(
            tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH_SIZE),
            validation_data=batches_of(),
            epochs=6,
            verbose=0,
            callbacks=[callback],
        )
    files = sorted(each.name for each in pathlib.Path(folder).rglob("*") if each.is_file())
    return {**results_of(model, history), "sent": sent, "files": files}


def _callback(name: str, folder: str, sent: list[Any]) -> Any:
    def note(epoch: int, logs: Any) -> None:
        sent.append((epoch, sorted(logs)))

    makers: dict[str, Callable[[], Any]] = {
        "BackupAndRestore": lambda: keras.callbacks.BackupAndRestore(
            f"{folder}/backup", save_freq=2, double_checkpoint=True
        ),
        "CSVLogger": lambda: keras.callbacks.CSVLogger(f"{folder}/log.csv"),
        "EarlyStopping": lambda: keras.callbacks.EarlyStopping(
            "val_loss", min_delta=0.1, patience=1, restore_best_weights=True
        ),
        "History": keras.callbacks.History,
        "LambdaCallback": lambda: keras.callbacks.LambdaCallback(on_epoch_end=note),
        "LearningRateScheduler": lambda: keras.callbacks.LearningRateScheduler(
            lambda epoch, rate: rate * 0.5
        ),
        "ModelCheckpoint": lambda: keras.callbacks.ModelCheckpoint(
            f"{folder}/{{epoch}}.weights.h5", save_weights_only=True, save_freq=7
        ),
        "ProgbarLogger": keras.callbacks.ProgbarLogger,
        "ReduceLROnPlateau": lambda: keras.callbacks.ReduceLROnPlateau(
            "val_loss", factor=0.8, min_delta=1, patience=1
        ),
        "RemoteMonitor": lambda: keras.callbacks.RemoteMonitor(send_as_json=True),
        "SwapEMAWeights": lambda: keras.callbacks.SwapEMAWeights(swap_on_epoch=True),
        "TerminateOnNaN": keras.callbacks.TerminateOnNaN,
    }
    return makers[name]()
