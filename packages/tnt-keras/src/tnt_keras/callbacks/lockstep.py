"""Keep ranks in lockstep: the same steps, the same end, equal weights, one error for all.

They leave at the same step, too, when a scheduler asks for the end.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

import tnt_comm
from tnt_comm.board import note_progress
from tnt_keras.callbacks.ranks import folder_of_all_ranks
from tnt_keras.calls.errors import is_known_to_all, of_other_rank
from tnt_keras.calls.messages import allgather, allreduce
from tnt_keras.process import training_requests
from tnt_keras.process.rank import get_rank
from tnt_keras.step.accumulation import reduce_accumulated
from tnt_keras.step.replicas import check_replicas
from tnt_keras.step.reports import keep_own_logs

STEPS = {"train": "training step", "test": "test step", "predict": "prediction step"}
"""What a step is called, by the name that Keras' hooks have for it."""
_STOPS = {"train": "stop_training", "test": "stop_evaluating", "predict": "stop_predicting"}
"""By which attribute of the model callbacks ask for an end, by the kind of step."""
_GO_ON, _STOP, _RAISED = range(3)
"""How a rank wants to go on; the largest of all ranks counts."""


class Lockstep(keras.callbacks.Callback):
    """Run the user's callbacks, and agree after each call on how to go on; not for one rank.

    If a callback stops only some ranks, such as one that looks at the clock, all ranks stop: else
    the others would wait for ever in the next step. If one raises on some ranks, all ranks raise:
    those its error, the others one that names it. A rank on which a callback calls something that
    the others do not call is noticed at the next message, since that carries the name of the call
    and the kind of step. Weights are compared bit by bit at the end of each epoch, and wherever a
    callback may have set them: at the ends of training, evaluation and prediction.

    The switches say what callbacks of any rank need: `at_batch_begin`, that they act before a step,
    `compares_weights`, that there are any, `keeps_own_logs`, logs of each rank's samples.
    """

    def __init__(
        self,
        callbacks: Sequence[keras.callbacks.Callback],
        *,
        at_batch_begin: bool,
        compares_weights: bool,
        keeps_own_logs: bool,
    ) -> None:
        super().__init__()
        self.callbacks = list(callbacks)
        self._at_batch_begin = at_batch_begin
        self._compares_weights = compares_weights
        self._keeps_own_logs = keeps_own_logs
        self._is_training = False
        self._epoch = 0  # its number from 1 on, for the launcher

    def set_model(self, model: keras.Model) -> None:
        """Give the callbacks the model. Local."""
        super().set_model(model)
        if self._keeps_own_logs:
            keep_own_logs(model)
        for callback in self.callbacks:
            callback.set_model(model)

    def set_params(self, params: dict[str, Any]) -> None:
        """Give the callbacks the parameters of the call. Local."""
        super().set_params(params)
        for callback in self.callbacks:
            callback.set_params(params)

    def on_train_begin(self, logs: Any = None) -> None:
        """Run the callbacks before training. Collective."""
        self._is_training = True
        self._run("begin of training", "on_train_begin", logs, takes_requests=True)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Run the callbacks before the steps of an epoch. Collective."""
        self._epoch = epoch + 1
        note_progress(self._epoch, 0)
        self._reset_own_logs()
        self._run("begin of epoch", "on_epoch_begin", epoch, logs)

    def on_test_begin(self, logs: Any = None) -> None:
        """Run the callbacks before the steps of an evaluation. Collective."""
        self._reset_own_logs()
        self._run("begin of test steps", "on_test_begin", logs)

    def on_predict_begin(self, logs: Any = None) -> None:
        """Run the callbacks before the steps of a prediction. Collective."""
        self._run("begin of prediction steps", "on_predict_begin", logs)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Run the callbacks, agree on whether to stop, and compare the weights. Collective."""
        reduce_accumulated(self.model._tnt_owner.optimizers)  # a callback of one rank may save them
        self._run(
            *("end of epoch", "on_epoch_end", epoch, logs),
            stop="stop_training",
            takes_requests=True,
        )
        check_replicas(self.model._tnt_owner)

    def on_train_end(self, logs: Any = None) -> None:
        """Run the callbacks after training, and compare the weights. Collective."""
        self._is_training = False
        note_progress(0, 0)
        self._run("end of training", "on_train_end", logs)
        self._compare_weights()

    def on_test_end(self, logs: Any = None) -> None:
        """Compare the weights, and run the callbacks after an evaluation. Collective."""
        self._compare_weights()  # before a callback puts back those that it has evaluated with
        self._run("end of test steps", "on_test_end", logs)
        if not self._is_training:
            self._compare_weights()

    def on_predict_end(self, logs: Any = None) -> None:
        """Compare the weights, and run the callbacks after a prediction. Collective."""
        self._compare_weights()
        self._run("end of prediction steps", "on_predict_end", logs)
        self._compare_weights()

    def _reset_own_logs(self) -> None:
        own_logs = self.model._tnt_owner.own_logs
        if own_logs is not None:  # be it for the callbacks of a call in which this one is made
            own_logs.reset()

    def _compare_weights(self) -> None:
        if self._compares_weights:
            check_replicas(self.model._tnt_owner)

    def _before_step(self, kind: str, batch: int, logs: Any = None) -> None:
        if kind == "train":
            note_progress(self._epoch, batch + 1)
        hook = f"on_{kind}_batch_begin"
        if self._at_batch_begin:
            self._run(f"begin of {STEPS[kind]}", hook, batch, logs=logs)
        else:
            for callback in self.callbacks:  # those of Keras, which call no collective
                getattr(callback, hook)(batch, logs=logs)

    def _after_step(self, kind: str, batch: int, logs: Any = None) -> None:
        point, hook = f"end of {STEPS[kind]}", f"on_{kind}_batch_end"
        stop = _STOPS[kind]
        self._run(point, hook, batch, logs=logs, stop=stop, takes_requests=kind == "train")

    on_train_batch_begin = functools.partialmethod(_before_step, "train")
    on_test_batch_begin = functools.partialmethod(_before_step, "test")
    on_predict_batch_begin = functools.partialmethod(_before_step, "predict")
    on_train_batch_end = functools.partialmethod(_after_step, "train")
    on_test_batch_end = functools.partialmethod(_after_step, "test")
    on_predict_batch_end = functools.partialmethod(_after_step, "predict")

    def _run(
        self,
        point: str,
        hook: str,
        *args: Any,
        stop: str | None = None,
        takes_requests: bool = False,
        **kwargs: Any,
    ) -> None:
        """Call all callbacks, and agree on how to go on.

        `stop` is the attribute of the model by which they ask for an end, if it counts here. What
        is requested of the training travels in the same message where a backup could be written.
        """
        error = self._error_of(hook, *args, **kwargs)
        wants_end = stop is not None and bool(getattr(self.model, stop))
        try:
            own = _RAISED if error else _STOP if wants_end else _GO_ON
            requests = training_requests.own_requests() if takes_requests else (0, 0)
            message = np.array([own, *requests], np.uint8)
            of_all, *requests_of_all = allreduce(point, message, "max").tolist()
        except tnt_comm.CommError as other:
            raise (error or other) from None  # the others wait elsewhere, and are told so
        if of_all == _RAISED:
            _raise_on_all_ranks(point, error)
        if stop is not None and of_all == _STOP:
            setattr(self.model, stop, True)
        if takes_requests:
            training_requests.agree(*requests_of_all)

    def _error_of(self, hook: str, *args: Any, **kwargs: Any) -> Exception | None:
        """Return what a callback raised; errors that all ranks know already are passed on."""
        try:
            for callback in self.callbacks:
                with folder_of_all_ranks(callback):
                    getattr(callback, hook)(*args, **kwargs)
        except Exception as error:
            if is_known_to_all(error):
                raise
            return error
        return None


def _raise_on_all_ranks(point: str, error: Exception | None) -> None:
    """Raise the error of this rank, or one that names those of others. Collective."""
    own = "" if error is None else f"{type(error).__name__}: {error}"
    messages = [text.decode(errors="replace") for text in allgather("errors", own.encode())]
    if error is not None:
        raise error
    raised = [rank for rank, text in enumerate(messages) if text]
    described = "; ".join(f"rank {rank}: {messages[rank]}" for rank in raised)
    raise of_other_rank(
        RuntimeError,
        raised[0],
        f"Rank {get_rank()}: a callback raised an error on other ranks at the {point}, so the "
        f"call cannot continue. {described}",
    )


class LeaveWhenAsked(keras.callbacks.Callback):
    """End the program where ranks have agreed on it; it comes after that which writes a backup.

    Ends of an epoch are not those of its validation, in which nobody leaves: a backup holds no
    state in the middle of it.
    """

    def __init__(self, backup: str | None) -> None:
        """`backup` is the folder in which a backup has been written before, if there is one."""
        super().__init__()
        self._backup = backup
        self._epoch = 0

    def on_train_begin(self, logs: Any = None) -> None:
        """Leave before the first step. Local; all ranks do the same."""
        self._leave_if_asked("before its first step")

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Remember the epoch. Local."""
        self._epoch = epoch + 1

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Leave after a step. Local; all ranks do the same."""
        self._leave_if_asked(f"in epoch {self._epoch}, after step {batch + 1}")

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Leave after an epoch. Local; all ranks do the same."""
        self._leave_if_asked(f"after epoch {self._epoch}")

    def _leave_if_asked(self, where: str) -> None:
        if training_requests.asked_by():
            training_requests.leave(where, self._backup)
