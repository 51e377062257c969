"""Ranks that make different calls, or leave a call in their own way; each returns plain values."""

from __future__ import annotations

import inspect
import time
import traceback
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from behaviours import batches_of
from classifiers import classifier, restarted, samples

import tnt_comm
import tnt_keras


def line_of(text: str) -> str:
    """File and line of the one line of this module that ends with the comment `# text`."""
    lines, first = inspect.getsourcelines(inspect.getmodule(line_of))  # type: ignore[arg-type]
    [number] = [i for i, line in enumerate(lines, max(first, 1)) if line.endswith(f"# {text}\n")]
    return f"calls.py:{number}"


def error_of(name: str) -> dict[str, Any]:
    """Makes one mistake; returns type and text of the error, its traceback, and the seconds."""
    return _error_of(DIFFERING[name])


def _error_of(function: Callable[[], Any]) -> dict[str, Any]:
    begin = time.monotonic()
    try:
        function()
    except Exception as error:  # the kind is what the test looks at
        return {
            "kind": type(error).__name__,
            "text": str(error),
            "traceback": "".join(traceback.format_exception(error)),
            "seconds": time.monotonic() - begin,
        }
    return {"kind": "", "text": "no error", "traceback": "", "seconds": 0.0}


class OnMaster(keras.callbacks.Callback):
    """Calls something on the master rank alone, in the method of a callback that is named."""

    def __init__(self, method: str, function: Callable[[Any], None]) -> None:
        super().__init__()
        setattr(self, method, self._call)
        self._function = function

    def _call(self, *args: Any, **kwargs: Any) -> None:
        if tnt_keras.is_master_rank():
            self._function(self.model)


def _predict_between_fits() -> None:
    model = classifier(True)
    model.fit(batches_of(), verbose=0)
    if tnt_keras.is_master_rank():
        model.predict(samples()[0], verbose=0)  # predict alone
    model.fit(batches_of(), verbose=0)  # second fit


def _evaluate_during_fit() -> None:
    model = classifier(True)
    if tnt_keras.is_master_rank():
        model.evaluate(batches_of(), verbose=0)  # evaluate alone
    else:
        model.fit(batches_of(), verbose=0)  # fit alone


def _save_before_evaluate() -> None:
    model = classifier(True)
    if tnt_keras.is_master_rank():
        model.save("never-written.keras")  # save alone
    model.evaluate(batches_of(), verbose=0)  # evaluate after save


def _logger_that_evaluates() -> None:
    class Evaluating(keras.callbacks.CSVLogger):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.model.evaluate(batches_of(), verbose=0)  # evaluate in logger

    callbacks = [Evaluating("/dev/null")]
    classifier(True).fit(batches_of(), verbose=0, callbacks=callbacks)  # fit with logger


def _evaluate_at_batch_begin() -> None:
    def evaluate(model: Any) -> None:
        model.evaluate(batches_of(), verbose=0)  # evaluate at batch begin

    callbacks = [OnMaster("on_train_batch_begin", evaluate)]
    classifier(True).fit(batches_of(), verbose=0, callbacks=callbacks)  # fit with callback


def _own_collective_in_callback() -> None:
    def gather(model: Any) -> None:
        tnt_comm.allgather(np.zeros(1, np.uint8))  # own allgather

    callbacks = [OnMaster("on_train_batch_end", gather)]
    classifier(True).fit(batches_of(), verbose=0, callbacks=callbacks)  # fit with allgather


def _callback_of_one_rank_predicts() -> None:
    def predict(model: Any) -> None:
        model.predict(samples()[0], verbose=0)  # predict at batch begin

    callbacks = [OnMaster("on_train_batch_begin", predict)] if tnt_keras.is_master_rank() else []
    classifier(True).fit(batches_of(), verbose=0, callbacks=callbacks)  # fit with one callback


def _evaluate_at_the_end() -> None:
    def evaluate(model: Any) -> None:
        model.evaluate(batches_of(), verbose=0)  # evaluate at the end

    callbacks = [OnMaster("on_train_end", evaluate)]
    classifier(True).fit(batches_of(), verbose=0, callbacks=callbacks)  # fit that ends


def _fit_after_prediction() -> None:
    def fit(model: Any) -> None:
        model.fit(batches_of(), verbose=0)  # fit after prediction

    callbacks = [OnMaster("on_predict_end", fit)]
    classifier(True).predict(samples()[0], verbose=0, callbacks=callbacks)  # predict with fit


def _sum_on_master_in_a_step() -> None:
    class Summing(keras.Sequential):
        def train_step(self, data: Any) -> Any:
            x, y = data[:2]
            if tnt_keras.is_master_rank():
                x = x - tnt_keras.batch_sum(x)
            return super().train_step((x, y))

    model = tnt_keras.Model(Summing([keras.Input((6,)), keras.layers.Dense(1)]))
    model.compile("sgd", "mse")
    model.fit(np.zeros((8, 6)), np.zeros((8, 1)), batch_size=4, verbose=0)  # fit with a sum


def _callback_of_one_rank_raises() -> None:
    def fail(model: Any) -> None:
        raise OSError("no space")

    callbacks = [OnMaster("on_epoch_end", fail)]
    classifier(True).fit(batches_of(), verbose=0, callbacks=callbacks)  # fit that fails


DIFFERING = {
    "sum on master in a step": _sum_on_master_in_a_step,
    "callback of one rank raises": _callback_of_one_rank_raises,
    "callback of one rank predicts": _callback_of_one_rank_predicts,
    "evaluate at the end": _evaluate_at_the_end,
    "fit after prediction": _fit_after_prediction,
    "predict between fits": _predict_between_fits,
    "evaluate during fit": _evaluate_during_fit,
    "save before evaluate": _save_before_evaluate,
    "logger that evaluates": _logger_that_evaluates,
    "evaluate at batch begin": _evaluate_at_batch_begin,
    "own collective": _own_collective_in_callback,
}


def each_with_its_own_samples() -> tuple[int, int]:
    """Predicts for other numbers of batches on each rank, then fits; returns rows and epochs."""
    model = restarted(classifier, True)
    x = samples(5 * (1 + 2 * tnt_keras.get_rank()))[0]
    rows = model.predict(x, batch_size=5, tnt_distribute_dataset=False, verbose=0)
    history = model.fit(batches_of(), verbose=0)
    return len(rows), len(history.history["loss"])


def error_in_own_callback() -> str:
    """The error that a user's own callback raises on all ranks, as it arrives at the user."""

    class Raising(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            raise KeyError("mine")

    try:
        restarted(classifier, True).fit(batches_of(), verbose=0, callbacks=[Raising()])
    except KeyError as error:
        return str(error)
    return "no error"


def lost_in_step() -> dict[str, Any]:
    """What a rank raises when another one cannot read its data and leaves."""

    def read(number: Any) -> Any:
        if number == 6 and tnt_keras.get_rank() == 1:
            raise OSError("disk")
        return np.full(10, number, np.float32)

    def sample(number: Any) -> Any:
        x = tf.ensure_shape(tf.numpy_function(read, [number], tf.float32), (10,))
        return x, number % 3

    def fit() -> None:
        classifier(True).fit(data, verbose=0)  # fit with disk

    data = tf.data.Dataset.range(12).map(sample).batch(2)
    result = _error_of(fit)
    if tnt_keras.get_rank() == 1:
        tnt_comm.finalize()
    return result


def error_in_own_step() -> dict[str, Any]:
    """The error of an assertion in a user's own step, on all ranks."""

    class Asserting(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.dense = keras.layers.Dense(3)

        def call(self, inputs: Any) -> Any:
            tf.debugging.assert_less(inputs, -1e9, message="mine")
            return self.dense(inputs)

    model = tnt_keras.Model(Asserting())
    return _error_of(lambda: model.predict(samples()[0], verbose=0))


def stopped_evaluation(in_a_list: bool) -> int:
    """Number of steps when rank 1 alone wants to stop an evaluation after two."""
    steps = []

    class StopAfterSecond(keras.callbacks.Callback):
        def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
            steps.append(batch)
            if batch == 1 and tnt_keras.get_rank() == 1:
                self.model.stop_evaluating = True

    model, callbacks = restarted(classifier, True), [StopAfterSecond()]
    given = keras.callbacks.CallbackList(callbacks, model=model) if in_a_list else callbacks
    model.evaluate(batches_of(), verbose=0, callbacks=given)
    return len(steps)
