"""Which callbacks only write what is the same on all ranks, so that the master alone runs them."""

from __future__ import annotations

from typing import Any, TypeVar

import keras

_Class = TypeVar("_Class")

FILE_WRITERS = tuple(
    getattr(keras.callbacks, name)
    for name in ("CSVLogger", "RemoteMonitor", "OrbaxCheckpoint")
    if hasattr(keras.callbacks, name)  # the last one is not in all versions
)
"""Those of Keras; each writes to the one place that it was given."""
_LOGGER_PACKAGES = frozenset(
    {
        "aim",
        "clearml",
        "comet_ml",
        "dvclive",
        "mlflow",
        "neptune",
        "neptune_tensorflow_keras",
        "swanlab",
        "trackio",
        "wandb",
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
