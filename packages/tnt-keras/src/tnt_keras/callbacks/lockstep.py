"""Keep ranks in lockstep: the same steps, the same end, equal weights."""

from __future__ import annotations

from typing import Any

import keras

from tnt_keras.collectives.messages import any_rank, barrier
from tnt_keras.step.variables import check_replicas


class Lockstep(keras.callbacks.Callback):
    """Keep ranks in lockstep: they take and end the same steps, and their weights stay equal.

    If a callback stops only some ranks, such as one that looks at the clock, all ranks stop: else
    the others would wait for ever in the next step. A rank on
    which a callback calls something that the others do not call is noticed at the next message,
    since that carries the name of the call and the kind of step. At the end of each epoch the
    weights are compared bit by bit.

    It must come after the callbacks of the user. One rank needs none.

    Args:
        at_batch_begin: Whether ranks wait for each other before a step too, since a callback does
            something then.
    """

    def __init__(self, *, at_batch_begin: bool = False) -> None:
        super().__init__()
        self._at_batch_begin = at_batch_begin

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Wait for all ranks before the steps of an epoch. Collective."""
        barrier("begin of epoch")

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Wait for all ranks before the steps of an evaluation. Collective."""
        barrier("begin of test steps")

    def on_predict_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Wait for all ranks before the steps of a prediction. Collective."""
        barrier("begin of prediction steps")

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Wait for all ranks before a training step, if callbacks act then. Collective."""
        if self._at_batch_begin:
            barrier("begin of training step")

    def on_test_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Wait for all ranks before a test step, if callbacks act then. Collective."""
        if self._at_batch_begin:
            barrier("begin of test step")

    def on_predict_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Wait for all ranks before a prediction step, if callbacks act then. Collective."""
        if self._at_batch_begin:
            barrier("begin of prediction step")

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Agree on whether to stop. Collective."""
        if any_rank("end of training step", self.model.stop_training):
            self.model.stop_training = True

    def on_test_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Agree on whether to stop. Collective."""
        if any_rank("end of test step", self.model.stop_evaluating):
            self.model.stop_evaluating = True

    def on_predict_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Agree on whether to stop. Collective."""
        if any_rank("end of prediction step", self.model.stop_predicting):
            self.model.stop_predicting = True

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Compare the weights and agree on whether to stop. Collective."""
        check_replicas(self.model)
        if any_rank("end of epoch", self.model.stop_training):
            self.model.stop_training = True
