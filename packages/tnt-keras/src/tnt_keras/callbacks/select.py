"""Which of the user's callbacks run on this rank, and the check that Tarantella adds."""

from __future__ import annotations

from typing import Any

import keras

from tnt_comm import timeline
from tnt_keras.callbacks.communication_report import CommunicationReport
from tnt_keras.callbacks.timeline import TimelineMarks
from tnt_keras.collectives.messages import any_rank
from tnt_keras.process.rank import get_size, is_master_rank
from tnt_keras.step.data_check import StepExchange
from tnt_keras.step.variables import check_replicas

# They only write what all ranks know alike.
_WRITERS = (
    keras.callbacks.CSVLogger,
    keras.callbacks.RemoteMonitor,
    keras.callbacks.TensorBoard,
)
_UNSUPPORTED = {
    keras.callbacks.BackupAndRestore: (
        "Use `keras.callbacks.ModelCheckpoint` and `model.load_weights` to continue a run."
    ),
}


class Agreement(keras.callbacks.Callback):
    """Keeps ranks together: they stop at the same step, and their weights stay equal.

    A wish to stop that only some ranks have, such as that of a callback that looks at its own
    clock, becomes that of all: else the others would wait for ever in the next step. At the end of
    each epoch the weights are compared bit by bit.
    """

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Agrees on whether to stop. Collective.

        Args:
            batch: Number of the step.
            logs: Not used.
        """
        self._agree_on_stopping()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Compares the weights and agrees on whether to stop. Collective.

        Args:
            epoch: Number of the epoch.
            logs: Not used.
        """
        check_replicas(self.model)
        self._agree_on_stopping()

    def _agree_on_stopping(self) -> None:
        self.model.stop_training = any_rank(self.model.stop_training)


class EndOfData(keras.callbacks.Callback):
    """Compares where the data of ranks end, for inputs that ranks compare in each step.

    A rank that has no more data tells the others, who may be in their next step and wait for it.

    Args:
        exchange: By which steps are compared.
        training: Whether training steps are.
        testing: Whether the steps of `evaluate` are, also within `fit`.
        predicting: Whether the steps of `predict` are.
    """

    def __init__(
        self,
        exchange: StepExchange,
        *,
        training: bool = False,
        testing: bool = False,
        predicting: bool = False,
    ) -> None:
        super().__init__()
        self._exchange = exchange
        self._training, self._testing, self._predicting = training, testing, predicting
        self._is_training = False

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Notes that training steps follow. Local."""
        self._is_training = self._training

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Ends the training steps of an epoch, if validation follows. Collective."""
        self._end_training()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Ends the training steps of an epoch. Collective."""
        self._end_training()

    def on_test_end(self, logs: dict[str, Any] | None = None) -> None:
        """Ends the steps of an evaluation. Collective."""
        if self._testing:
            self._exchange.end()

    def on_predict_end(self, logs: dict[str, Any] | None = None) -> None:
        """Ends the steps of a prediction. Collective."""
        if self._predicting:
            self._exchange.end()

    def _end_training(self) -> None:
        if self._is_training:
            self._is_training = False
            self._exchange.end()


def for_this_rank(callbacks: Any, *, training: bool, first: EndOfData | None = None) -> Any:
    """Returns the callbacks that run on this rank. Local.

    All run on every rank, with the same global logs, so that they decide alike; those that only
    write files or send messages run on the master rank.

    Args:
        callbacks: As in Keras: None, one callback, a list, or a `CallbackList`.
        training: Whether they are for `fit`.
        first: A callback that runs before all others.

    Raises:
        ValueError: If a callback cannot work on several ranks; says what to use.
    """
    if isinstance(callbacks, keras.callbacks.CallbackList):
        kept = [c for c in callbacks.callbacks if not isinstance(c, EndOfData)]
        callbacks.callbacks[:] = kept if first is None else [first, *kept]
        return callbacks
    marks = [TimelineMarks()] if timeline.is_on() else []
    if get_size() == 1 and not marks:
        return callbacks
    given = keras.tree.flatten(callbacks) if callbacks is not None else []
    if get_size() == 1:
        return [*marks, *given]
    for callback in given:
        for unsupported, remedy in _UNSUPPORTED.items():
            if isinstance(callback, unsupported):
                raise ValueError(
                    f"{unsupported.__name__} does not work on several ranks yet. {remedy}"
                )
    kept = [c for c in given if is_master_rank() or not isinstance(c, _WRITERS)]
    before = [*marks] if first is None else [*marks, first]
    if not training:
        return [*before, *kept]
    report = [CommunicationReport()] if CommunicationReport.is_wanted() else []
    return [*before, *kept, Agreement(), *report]
