"""On which ranks callbacks run and with which logs: loggers, checkpoints and others."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import keras

from tnt_keras.calls.current_call import holding, on_one_rank
from tnt_keras.keras_hooks.patch import replaced
from tnt_keras.process.loggers import logger_package
from tnt_keras.process.rank import get_rank, get_size, is_master_rank, logger, settings

_Class = TypeVar("_Class")

_DECIDING = (
    keras.callbacks.BackupAndRestore,
    keras.callbacks.EarlyStopping,
    keras.callbacks.LearningRateScheduler,
    keras.callbacks.ReduceLROnPlateau,
    keras.callbacks.SwapEMAWeights,
    keras.callbacks.TerminateOnNaN,
)
"""They change the training or its end, which must be done alike on all ranks."""
FILE_WRITERS = tuple(
    getattr(keras.callbacks, name)
    for name in ("CSVLogger", "RemoteMonitor", "OrbaxCheckpoint")
    if hasattr(keras.callbacks, name)  # the last one is not in all versions
)
"""Those of Keras; each writes to the one place that it was given."""
_classes_of_users: list[type] = []


class Callback(keras.callbacks.Callback):
    """Run a Keras callback on all ranks or only on the master, with global logs or the rank's own.

        tnt.callbacks.Callback(TimeHistory(), aggregate_logs=False, run_on_all_ranks=False)

    Callbacks that are not wrapped run on all ranks with global logs, except those that only write;
    see the page on callbacks. With its defaults, this class changes none of that, except that a
    `keras.callbacks.TensorBoard` writes on all ranks.

    A callback that runs only on the master may save the model, without the other ranks; it cannot
    evaluate or predict with it.

    Args:
        callback: Any callback of Keras or your own.
        aggregate_logs: Whether logs are about the samples of all ranks. If not, they are about the
            samples that this rank has computed since the metrics were reset. Metrics whose state is
            not a sum over samples stay global.
        run_on_all_ranks: Whether every rank runs it; otherwise only the master does.

    Attributes:
        callback: As given.
        aggregate_logs: As given.
        run_on_all_ranks: As given.

    Raises:
        TypeError: If `callback` is not a callback.
        ValueError: If it is wrapped already, or would control the training of all ranks with what
            one rank knows.
    """

    def __init__(
        self,
        callback: keras.callbacks.Callback,
        aggregate_logs: bool = True,
        run_on_all_ranks: bool = True,
    ) -> None:
        super().__init__()
        _check(callback, aggregate_logs, run_on_all_ranks)
        self.callback, self.aggregate_logs = callback, aggregate_logs
        self.run_on_all_ranks = run_on_all_ranks
        self._validation: dict[str, Any] = {}  # logs of this rank's samples

    def set_model(self, model: keras.Model) -> None:
        """Give the callback the model, if it runs on this rank. Local.

        Args:
            model: The model.
        """
        super().set_model(model)
        self._run(lambda: self.callback.set_model(model))

    def set_params(self, params: dict[str, Any]) -> None:
        """Give the callback the parameters of the call, if it runs on this rank. Local.

        Args:
            params: As in Keras.
        """
        super().set_params(params)
        self._run(lambda: self.callback.set_params(params))

    def _run(self, call: Callable[[], None]) -> None:
        if self.run_on_all_ranks:
            call()
        elif is_master_rank():
            with holding(on_one_rank, type(self.callback).__name__):
                call()

    def _logs(self, hook: str, logs: Any) -> Any:
        """Return the logs that the callback gets in a hook."""
        owner = getattr(self.model, "_tnt_owner", None)
        if (
            self.aggregate_logs
            or get_size() == 1
            or owner is None  # a model of Keras, whose logs are of one rank
            or owner.own_logs is None
            or not isinstance(logs, dict)
            or hook.startswith("on_predict")
        ):
            return logs
        if hook.startswith("on_test"):
            own: dict[str, Any] = owner.own_logs.replace(logs, "test_step")
            self._validation = {f"val_{key}": value for key, value in own.items()}
            return own
        # Another callback may have evaluated since the validation.
        own_validation = {key: self._validation[key] for key in logs if key in self._validation}
        return owner.own_logs.replace(logs, "train_step") | own_validation


def _check(callback: Any, aggregate_logs: bool, run_on_all_ranks: bool) -> None:
    name, decides = type(callback).__name__, isinstance(callback, _DECIDING)
    if not isinstance(callback, keras.callbacks.Callback):
        raise TypeError(f"`callback` must be a `keras.callbacks.Callback`. Received: {name}.")
    if isinstance(callback, Callback):
        raise ValueError(
            "`callback` is a `tnt.callbacks.Callback` already. Wrap the callback of Keras once."
        )
    if decides and not run_on_all_ranks:
        raise ValueError(
            f"{name} must run on all ranks, since it controls the training of all of them. Leave "
            "run_on_all_ranks=False out."
        )
    saves = isinstance(callback, keras.callbacks.ModelCheckpoint) and run_on_all_ranks
    if (decides or saves) and not aggregate_logs:
        raise ValueError(
            f"{name} must see the logs of all ranks, since all ranks must decide alike. Leave "
            "aggregate_logs=False out."
        )


def _hook(name: str) -> Callable[..., None]:
    def run(self: Callback, logs: Any = None) -> None:
        self._run(lambda: getattr(self.callback, name)(self._logs(name, logs)))

    def run_numbered(self: Callback, number: int, logs: Any = None) -> None:
        hook, own = getattr(self.callback, name), self._logs(name, logs)
        # Keras gives the logs by position at epochs, and by their name at batches.
        self._run(lambda: hook(number, logs=own) if "batch" in name else hook(number, own))

    method = run_numbered if "epoch" in name or "batch" in name else run
    method.__doc__ = f"Call `{name}` of the callback, if it runs on this rank. Local."
    return method


for _name in vars(keras.callbacks.Callback):
    if _name.startswith("on_"):
        setattr(Callback, _name, _hook(_name))


def run_on_master(cls: _Class) -> _Class:
    """Let callbacks of a class, or of one derived from it, run only on the master rank. Local.

    For loggers that Tarantella does not know. Call it on all ranks before `fit`, or write it above
    the class:

        @tnt.callbacks.run_on_master
        class Notify(keras.callbacks.Callback): ...

    A callback of the class still runs on all ranks if it is wrapped as
    `tnt.callbacks.Callback(callback)`.

    Args:
        cls: A class of callbacks.

    Returns:
        The class itself.

    Raises:
        TypeError: If it is not a class of callbacks.
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
    return any(logger_package(cls.__module__) is not None for cls in type(callback).__mro__)


def unwrapped(callback: keras.callbacks.Callback) -> keras.callbacks.Callback:
    """Return the callback that a `tnt.callbacks.Callback` runs, or the given one. Local."""
    return callback.callback if isinstance(callback, Callback) else callback


def saves_on_all_ranks(callback: keras.callbacks.Callback) -> bool:
    """Return whether a callback, wrapped or not, calls `save`, which needs all ranks. Local."""
    if isinstance(callback, Callback) and not callback.run_on_all_ranks:
        return False
    return isinstance(unwrapped(callback), keras.callbacks.ModelCheckpoint)


def check_checkpoints(of_ranks: Sequence[int]) -> None:
    """Refuse other numbers of callbacks that save on some ranks, which would not wait. Pure."""
    if len(set(of_ranks)) > 1:
        rank = of_ranks.index(min(of_ranks))
        raise ValueError(
            f"Rank {rank} has fewer `ModelCheckpoint` callbacks than others. All ranks need it, "
            "since all take part in saving, although only the master rank writes. Move it out of "
            "`if tnt.is_master_rank():`."
        )


def warn_of_loggers(of_ranks: Sequence[str | None]) -> None:
    """Warn on the master of loggers that several ranks have put in place of Keras' `fit`. Local."""
    packages = sorted({package for package in of_ranks if package is not None})
    count = sum(package is not None for package in of_ranks)
    if count > 1 and is_master_rank():
        logger.warning(
            "fit: %s logs every `fit` on %d ranks: each writes its own run, and a file or table "
            "that they share may be corrupted. Turn it on only on the master rank: `if "
            "tnt.is_master_rank(): ...`. [logged-by-all-ranks]",
            " and ".join(packages),
            count,
        )


def folder_of_all_ranks(callback: keras.callbacks.Callback) -> AbstractContextManager[None]:
    """Let all ranks make the folder of a checkpoint at the same time, in a with-block. Local.

    Keras looks whether it exists and then makes it; in between, another rank may have done so.
    """
    if not saves_on_all_ranks(callback):
        return contextlib.nullcontext()
    return replaced(os, "makedirs", functools.partial(os.makedirs, exist_ok=True))


class TensorBoardOfRank(Callback):
    """Let this rank write its files below `<log_dir>/rank_<rank>`, without the other ranks."""

    def set_model(self, model: keras.Model) -> None:
        """Choose the folder, and give the callback the model. Local."""
        folder = f"rank_{get_rank()}"
        if os.path.basename(self.callback.log_dir) != folder:  # else an earlier `fit` has done it
            self.callback.log_dir = os.path.join(self.callback.log_dir, folder)
        super().set_model(model)

    def _run(self, call: Callable[[], None]) -> None:
        with holding(on_one_rank, type(self.callback).__name__):
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
            "wrapped with run_on_all_ranks=%s, which wins. [tensorboard-ranks]",
            "all ranks" if wanted else "only the master rank",
            given.run_on_all_ranks,
        )
    if given.run_on_all_ranks:
        return TensorBoardOfRank(given.callback, given.aggregate_logs)
    return given
