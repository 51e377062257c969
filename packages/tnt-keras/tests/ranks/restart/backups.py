"""Runs that back themselves up, are killed, and are started again."""

from __future__ import annotations

import io
import itertools
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf
from classifiers import samples, weights_of

import tnt_keras
from tnt_keras.keras_hooks.patch import replaced
from tnt_keras.restart import backup_files
from tnt_keras.step.replicas import backing, replicated_variables

EPOCHS = 4
Data = tf.data.Dataset


class Death(NamedTuple):
    """When the processes of a run are killed, or get another signal."""

    hook: str = "never"
    """Of a callback that runs before the backup, or "write" for the middle of a file."""
    number: int = 0
    """Which call of the hook, counted from 0 in each process."""
    rank: int | None = None
    """The only rank that gets it, None for all."""
    signal: int = signal.SIGKILL


def _slices() -> tf.data.Dataset:
    return Data.from_tensor_slices(samples())


def _jittered(x: tf.Tensor, y: tf.Tensor) -> Any:
    return x + tf.random.normal([10], stddev=0.1, seed=5), y


class Batches(keras.utils.PyDataset):
    """Batches of 5, the last one of 1; with noise they depend on those that were made before."""

    def __init__(self, noise: bool) -> None:
        super().__init__()
        self.noise = noise

    def __len__(self) -> int:
        return 5

    def __getitem__(self, index: int) -> Any:
        x, y = (each[5 * index : 5 * index + 5] for each in samples())
        return (x + np.random.normal(size=x.shape) if self.noise else x), y


def _endless() -> Iterator[Any]:
    rng = np.random.default_rng(8)
    while True:
        yield rng.normal(size=(5, 10)).astype("float32"), rng.integers(0, 3, 5)


DATA: dict[str, Callable[[], dict[str, Any]]] = {
    "shuffled": lambda: {"x": _slices().shuffle(21).batch(5)},
    "shuffled twice, with noise": lambda: {
        "x": _slices().shuffle(21, seed=3).map(_jittered).batch(4).shuffle(3).prefetch(2)
    },
    "unknown length": lambda: {
        "x": _slices().filter(lambda x, y: x[0] > -1.0).shuffle(9, seed=1).batch(4)
    },
    "repeated": lambda: {"x": _slices().shuffle(9).repeat().batch(4), "steps_per_epoch": 4},
    "arrays": lambda: {
        "x": samples()[0],
        "y": samples()[1],
        "sample_weight": weights_of(),
        "batch_size": 5,
        "validation_split": 0.2,
    },
    "PyDataset": lambda: {"x": Batches(noise=False)},
    "PyDataset with noise": lambda: {"x": Batches(noise=True)},
    "generator": lambda: {"x": _endless(), "steps_per_epoch": 3},
    "own data of ranks": lambda: {
        "x": _slices().shuffle(21, seed=tnt_keras.get_rank()).batch(4),
        "tnt_distribute_dataset": False,
    },
}


class Kill(keras.callbacks.Callback):
    """Sends the process a signal at some call of a hook: one that it ends by without a word.

    Its count is no attribute: those are in a backup, and each process counts from 0.
    """

    def __init__(self, death: Death) -> None:
        super().__init__()
        calls = itertools.count()

        def die(*args: Any, **kwargs: Any) -> None:
            is_meant = death.rank in (None, tnt_keras.get_rank())
            if next(calls) == death.number and is_meant:
                os.kill(os.getpid(), death.signal)

        if hasattr(self, death.hook):
            setattr(self, death.hook, die)


class Record(keras.callbacks.Callback):
    """Keeps the logs of all steps in a plain attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.logs: list[Any] = []

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.logs.append((batch, dict(logs)))


class Counting(keras.callbacks.Callback):
    """Has its state in an object, and hands it out."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = np.zeros(1)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.steps[0] += 1

    def get_backup_state(self) -> Any:
        return {"steps": self.steps}

    def set_backup_state(self, state: Any) -> None:
        self.steps = state["steps"]


class Options(NamedTuple):
    """Of a run.

    With `draws_of_rows`, ranks draw other numbers than the serial run, and normalise by their part
    of a batch.
    """

    save_freq: Any = 1
    steps_per_execution: int = 1
    accumulated_steps: int | None = None
    draws_of_rows: bool = True


def _model(options: Options) -> Any:
    keras.utils.set_random_seed(11)
    layers = [keras.layers.Dense(8, "tanh"), keras.layers.Dense(3)]
    if options.draws_of_rows:
        layers[1:1] = [keras.layers.BatchNormalization(), keras.layers.Dropout(0.3)]
    model = tnt_keras.Model(keras.Sequential(layers))
    accumulated = options.accumulated_steps
    model.compile(
        keras.optimizers.Adam(
            0.02, use_ema=accumulated is None, gradient_accumulation_steps=accumulated
        ),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        steps_per_execution=options.steps_per_execution,
    )
    return model


def train(kind: str, folder: str, death: Death, options: Options) -> dict[str, Any]:
    """Train with a backup; the results are those of the whole training."""
    model, record, counting = _model(options), Record(), Counting()
    stopping = keras.callbacks.EarlyStopping("loss", patience=2, min_delta=0.05)
    with _killing_writer(death):
        history = model.fit(
            **{"validation_data": _slices().shuffle(9).batch(7)} | DATA[kind](),
            epochs=EPOCHS,
            verbose=0,
            callbacks=[
                Kill(death),
                keras.callbacks.BackupAndRestore(folder, options.save_freq),
                keras.callbacks.LearningRateScheduler(lambda epoch, rate: 0.9 * rate),
                keras.callbacks.ReduceLROnPlateau("loss", factor=0.5, patience=0, min_delta=0.2),
                stopping,
                record,
                counting,
            ],
        )
    return {
        "variables": [np.asarray(v) for v in [*model.variables, *model.optimizer.variables]],
        "history": history.history,
        "epoch": history.epoch,
        "logs": record.logs,
        "steps": counting.steps.tolist(),
        "stopped": stopping.stopped_epoch,
        "drawn": [np.random.rand(), float(keras.random.uniform([]))],
        "folder is left": os.path.exists(folder),
    }


def _killing_writer(death: Death) -> Any:
    written = []

    def write_half(stream: Any, *args: Any) -> None:
        if not isinstance(stream, io.BytesIO):  # else it is a part of a backup
            if death.hook == "write" and len(written) == death.number:
                stream.write(b"half of a file")
                stream.flush()
                os.kill(os.getpid(), signal.SIGKILL)
            written.append(stream)
        plain(stream, *args)

    plain = backup_files.write_container
    return replaced(backup_files, "write_container", write_half)


def variables_after_another_compile() -> list[str]:
    """Return the names of what a backup holds besides metrics, after a second optimizer."""
    x, y = samples()
    model = tnt_keras.Model(keras.Sequential([keras.layers.Dense(3)]))
    for optimizer in ("adam", "sgd"):
        model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        model.fit(x, y, batch_size=5, verbose=0)
    return [backing(variable).name for variable in replicated_variables(model._tnt_owner)]
