"""Callbacks that write: loggers on the master alone, checkpoints by all ranks, and TensorBoard."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import keras

from tnt_keras.callbacks.wrapper import Callback
from tnt_keras.calls.current_call import on_one_rank
from tnt_keras.keras_hooks.patch import replaced
from tnt_keras.process.environment import settings
from tnt_keras.process.output import logger
from tnt_keras.process.rank import get_rank

_Class = TypeVar("_Class")

FILE_WRITERS = tuple(
    getattr(keras.callbacks, name)
    for name in ("CSVLogger", "RemoteMonitor", "OrbaxCheckpoint")
    if hasattr(keras.callbacks, name)  # the last one is not in all versions
)
"""Those of Keras; each writes to the one place that it was given."""
_LOGGER_PACKAGES = frozenset(
    {
        *("aim", "clearml", "comet_ml", "dvclive", "mlflow", "neptune", "neptune_tensorflow_keras"),
        *("swanlab", "trackio", "wandb"),
    }
)
"""Packages that send logs to a server or a folder; their callbacks do nothing else."""
_classes_of_users: list[type] = []


def run_on_master(cls: _Class) -> _Class:
    """Let callbacks of a class, or of one derived from it, run on the master rank alone. Local.

    For loggers that Tarantella does not know. Call it on all ranks before `fit`, or write it above
    the class:

        @tnt.callbacks.run_on_master
        class Notify(keras.callbacks.Callback): ...

    A callback of the class that is wrapped as `tnt.callbacks.Callback(callback)` runs on all ranks
    nevertheless.

    Args:
        cls: A class of callbacks.

    Returns:
        The class itself.

    Raises:
        TypeError: If it is no class of callbacks.
    """
    if not (isinstance(cls, type) and issubclass(cls, keras.callbacks.Callback)):
        raise TypeError(
            "`cls` must be a class derived from `keras.callbacks.Callback`. Received: "
            f"{cls.__name__ if isinstance(cls, type) else type(cls).__name__}."
        )
    if cls not in _classes_of_users:
        _classes_of_users.append(cls)
    return cls


def is_writer(callback: Any) -> bool:
    """Return whether a callback only writes, by its class or one that it is derived from. Local.

    `TensorBoard` and what shows progress have rules of their own.
    """
    if isinstance(callback, (*FILE_WRITERS, *_classes_of_users)):
        return True
    packages = {cls.__module__.partition(".")[0] for cls in type(callback).__mro__}
    return not packages.isdisjoint(_LOGGER_PACKAGES)


def saves_on_all_ranks(callback: keras.callbacks.Callback) -> bool:
    """Return whether a callback, wrapped or not, calls `save`, which needs all ranks. Local."""
    if isinstance(callback, Callback) and callback.run_on_all_ranks:
        callback = callback.callback
    return isinstance(callback, keras.callbacks.ModelCheckpoint)


def check_checkpoints(of_ranks: Sequence[int]) -> None:
    """Refuse other numbers of callbacks that save on some ranks, which would not wait. Pure."""
    if len(set(of_ranks)) > 1:
        rank = of_ranks.index(min(of_ranks))
        raise ValueError(
            f"Rank {rank} has fewer `ModelCheckpoint` callbacks than others. All ranks need it, "
            "as they all take part in saving; the master rank alone writes. Take it out of "
            "`if tnt.is_master_rank():`."
        )


@contextlib.contextmanager
def folder_of_all_ranks(callback: keras.callbacks.Callback) -> Iterator[None]:
    """Let all ranks make the folder of a checkpoint at the same time. Local.

    Keras looks whether it exists and then makes it; in between, another rank may have done so.
    """
    if not saves_on_all_ranks(callback):
        yield
        return
    with replaced(os, "makedirs", functools.partial(os.makedirs, exist_ok=True)):
        yield


class TensorBoardOfRank(Callback):
    """Let this rank write its files below `<log_dir>/rank_<rank>`, without the other ranks."""

    def set_model(self, model: keras.Model) -> None:
        """Choose the folder, and give the callback the model. Local."""
        folder = f"rank_{get_rank()}"
        if os.path.basename(self.callback.log_dir) != folder:  # else an earlier `fit` has done it
            self.callback.log_dir = os.path.join(self.callback.log_dir, folder)
        super().set_model(model)

    def _run(self, call: Callable[[], None]) -> None:
        with on_one_rank.holding(type(self.callback).__name__):
            call()


def tensorboard_on_its_ranks(given: keras.callbacks.Callback) -> Callback:
    """Return what runs a `TensorBoard` on the ranks that are to write. Local.

    `TNT_TENSORBOARD_ON_ALL_DEVICES` says which, unless the callback is wrapped.
    """
    wanted = settings().tensorboard_on_all_ranks
    if not isinstance(given, Callback):
        return TensorBoardOfRank(given) if wanted else Callback(given, run_on_all_ranks=False)
    if wanted is not None and wanted != given.run_on_all_ranks:
        logger.warning(
            "TNT_TENSORBOARD_ON_ALL_DEVICES asks for TensorBoard on %s, but the callback is "
            "wrapped with run_on_all_ranks=%s, which is done.",
            "all ranks" if wanted else "the master rank alone",
            given.run_on_all_ranks,
        )
    if given.run_on_all_ranks:
        return TensorBoardOfRank(given.callback, given.aggregate_logs)
    return given
