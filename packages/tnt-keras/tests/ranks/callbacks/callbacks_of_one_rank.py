"""Callbacks that do something on one rank alone, at every point of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from behaviours import batches_of
from classifiers import classifier, restarted

import tnt_keras

FIT = (
    "on_train_begin",
    "on_epoch_begin",
    "on_train_batch_begin",
    "on_train_batch_end",
    "on_test_begin",
    "on_test_batch_begin",
    "on_test_batch_end",
    "on_test_end",
    "on_epoch_end",
    "on_train_end",
)
PREDICT = (
    "on_predict_begin",
    "on_predict_batch_begin",
    "on_predict_batch_end",
    "on_predict_end",
)


class At(keras.callbacks.Callback):
    """Does something in one of the methods, and counts how often Keras calls each of them."""

    def __init__(self, method: str, function: Callable[[Any], None]) -> None:
        super().__init__()
        self.called: list[str] = []
        for name in (*FIT, *PREDICT):
            setattr(self, name, self._make(name, function if name == method else None))

    def _make(self, name: str, function: Callable[[Any], None] | None) -> Callable[..., None]:
        def call(*args: Any, **kwargs: Any) -> None:
            self.called.append(name)
            if function is not None:
                function(self.model)

        return call


def _is_chosen() -> bool:
    return tnt_keras.get_size() == 1 or tnt_keras.get_rank() == 1


def _run(model: Any, method: str, callbacks: Any) -> None:
    if method in PREDICT:
        model.predict(batches_of().map(lambda x, y: x), verbose=0, callbacks=callbacks)
    else:
        data = batches_of()
        model.fit(data, validation_data=data, epochs=2, verbose=0, callbacks=callbacks)


def errors_of_raising(on_one_list_only: bool, methods: Sequence[str]) -> list[str]:
    """The errors when a callback of rank 1 raises, at points of a run."""

    def fail(model: Any) -> None:
        if _is_chosen():
            raise KeyError("mine")

    found, model = [], restarted(classifier, True)
    for method in methods:
        callbacks = [At(method, fail)] if _is_chosen() or not on_one_list_only else []
        try:
            _run(model, method, callbacks)
        except Exception as error:
            found.append(f"{method}: {type(error).__name__}: {error}")
    return found


def calls_until_stop(distributed: bool, methods: Sequence[str]) -> dict[str, list[str]]:
    """What Keras calls when a callback of one rank ends the run, for points of a run."""

    def stop(model: Any) -> None:
        if _is_chosen():
            model.stop_training = model.stop_evaluating = model.stop_predicting = True

    found, model = {}, restarted(classifier, distributed)
    for method in methods:
        at = At(method, stop)
        _run(model, method, [at])
        found[method] = at.called
    return found


def errors_of_setting_weights() -> list[str]:
    """The errors when a callback of rank 1 sets a weight, at each point of a run."""

    def change(model: Any) -> None:
        if _is_chosen():
            model.layers[-1].bias.assign_add(np.full(3, 1e-6, "float32"))

    found, model = [], classifier(True)
    for method in (*FIT, *PREDICT):
        try:
            if method.startswith("on_test"):
                model.evaluate(batches_of(), verbose=0, callbacks=[At(method, change)])
            else:
                _run(model, method, [At(method, change)])
        except Exception as error:
            found.append(f"{method}: {type(error).__name__}: {error}")
    return found


def error_of_borrowed_weights() -> str:
    """The error when a callback evaluates with other weights on rank 1 and puts them back."""

    class Borrow(keras.callbacks.Callback):
        def on_test_begin(self, logs: Any = None) -> None:
            self.own = self.model.get_weights()
            self.model.set_weights([w + _is_chosen() for w in self.own])

        def on_test_end(self, logs: Any = None) -> None:
            self.model.set_weights(self.own)

    data = batches_of()
    try:
        classifier(True).fit(data, validation_data=data, verbose=0, callbacks=[Borrow()])
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def with_callback_list(form: str) -> dict[str, Any]:
    """A run with callbacks in a list or a `CallbackList`, with a `History` of the user's or not."""
    model, at, data = restarted(classifier, True), At("", lambda model: None), batches_of()
    stopping = keras.callbacks.EarlyStopping(monitor="loss", patience=0, mode="max")
    own = keras.callbacks.History()
    given: Any = [at, stopping]
    if form == "list with History":
        given.append(own)
    elif form == "CallbackList":
        given = keras.callbacks.CallbackList(given, model=model)
    elif form == "CallbackList with History":
        given = keras.callbacks.CallbackList([*given, own], add_progbar=True, model=model)
    history = model.fit(data, validation_data=data, epochs=5, verbose=0, callbacks=given)
    evaluated = model.evaluate(data, verbose=0, callbacks=given)
    assert "History" not in form or history is own
    return {"history": history.history, "called": at.called, "evaluated": evaluated}


def own_class_of_list() -> str:
    """The error for a `CallbackList` that does something itself."""

    class Own(keras.callbacks.CallbackList):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            super().on_epoch_end(epoch, logs)

    try:
        classifier(True).fit(batches_of(), verbose=0, callbacks=Own([]))
    except ValueError as error:
        return str(error)
    return "no error"
