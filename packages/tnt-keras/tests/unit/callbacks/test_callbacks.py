"""`tnt.callbacks`: what can be wrapped, which classes write, and that one rank is plain Keras."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

import tnt_keras
from tnt_keras.callbacks import Callback, run_on_master
from tnt_keras.callbacks.ranks import FILE_WRITERS, is_writer

DECIDING = [
    keras.callbacks.EarlyStopping(),
    keras.callbacks.LearningRateScheduler(lambda epoch: 0.1),
    keras.callbacks.ReduceLROnPlateau(),
    keras.callbacks.SwapEMAWeights(),
    keras.callbacks.TerminateOnNaN(),
]


def class_of_module(module: str, *bases: type) -> type:
    """A class of callbacks as a package of that name would define it."""
    return type("Logger", bases or (keras.callbacks.Callback,), {"__module__": module})


def test_both_arguments_are_true_by_default() -> None:
    wrapped = Callback(keras.callbacks.Callback())
    assert wrapped.aggregate_logs
    assert wrapped.run_on_all_ranks


def test_the_names_of_the_original_are_there() -> None:
    assert tnt_keras.callbacks.Callback is tnt_keras.keras.callbacks.Callback is Callback


@pytest.mark.parametrize("callback", DECIDING, ids=lambda each: type(each).__name__)
def test_what_decides_for_all_ranks_cannot_run_on_one(callback: Any) -> None:
    with pytest.raises(ValueError, match=f"^{type(callback).__name__} must run on all ranks, .*"):
        Callback(callback, run_on_all_ranks=False)


@pytest.mark.parametrize(
    "callback",
    [*DECIDING, keras.callbacks.ModelCheckpoint("a.keras")],
    ids=lambda each: type(each).__name__,
)
def test_what_decides_for_all_ranks_cannot_see_the_logs_of_one(callback: Any) -> None:
    with pytest.raises(ValueError, match=f"^{type(callback).__name__} must see the logs of all"):
        Callback(callback, aggregate_logs=False)


def test_a_wrapped_callback_is_not_wrapped_again() -> None:
    with pytest.raises(ValueError, match=r"already\. Wrap the callback of Keras once"):
        Callback(Callback(keras.callbacks.Callback()))


def test_what_is_no_callback_is_not_wrapped() -> None:
    with pytest.raises(TypeError, match=r"must be a `keras\.callbacks\.Callback`.*Received: str"):
        Callback("callback")


@pytest.mark.parametrize(
    "module", ["wandb.integration.keras.callbacks.metrics", "mlflow.keras.callback", "comet_ml"]
)
def test_loggers_are_known_by_their_package_also_derived_ones(module: str) -> None:
    logger = class_of_module(module)
    assert is_writer(logger())
    assert is_writer(class_of_module("train", logger)())


@pytest.mark.parametrize("module", ["wandb_of_mine", "train", "__main__"])
def test_other_classes_run_on_all_ranks(module: str) -> None:
    assert not is_writer(class_of_module(module)())


def test_the_checkpoints_of_a_package_that_is_not_there_are_written_once() -> None:
    orbax = getattr(keras.callbacks, "OrbaxCheckpoint", None)  # not in all versions
    assert orbax is None or orbax in FILE_WRITERS


@pytest.mark.parametrize("name", ["CSVLogger", "RemoteMonitor"])
def test_subclasses_of_writers_of_keras_are_writers(name: str) -> None:
    cls = class_of_module("train", getattr(keras.callbacks, name))
    assert is_writer(cls("log.csv") if name == "CSVLogger" else cls())


def test_a_user_adds_a_class_by_a_decorator() -> None:
    @run_on_master
    class Notify(keras.callbacks.Callback):
        pass

    class NotifyMore(Notify):
        pass

    assert is_writer(Notify())
    assert is_writer(NotifyMore())


@pytest.mark.parametrize("given", [keras.callbacks.Callback(), int, "wandb"])
def test_only_classes_of_callbacks_are_added(given: Any) -> None:
    with pytest.raises(TypeError, match=r"derived from `keras\.callbacks\.Callback`\. Received: "):
        run_on_master(given)


@pytest.mark.parametrize("name", ["ProgbarLogger", "History"])
def test_on_one_rank_a_wrapped_callback_is_called_as_without_wrapper(
    name: str, capsys: Any
) -> None:
    called: list[tuple[str, Any]] = []

    class Record(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            called.append(("begin", batch))

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            called.append(("end", sorted(logs)))

    model = tnt_keras.Model(keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]))
    model.compile("sgd", "mse")
    wrapped = [
        Callback(Record(), aggregate_logs=False, run_on_all_ranks=False),
        Callback(getattr(keras.callbacks, name)()),
    ]
    model.fit(np.ones((4, 2)), np.ones((4, 1)), batch_size=2, verbose=2, callbacks=wrapped)
    assert called == [("begin", 0), ("begin", 1), ("end", ["loss"])]
    assert capsys.readouterr().out.count("2/2") == 1
